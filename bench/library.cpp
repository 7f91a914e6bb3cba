#include "library.hpp"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <random>
#include <stdexcept>

#include <dlfcn.h>

#include "numbers.hpp"

namespace bench {

namespace {

template <class Function> void find(void *handle, const char *name, Function &function) {
    function = reinterpret_cast<Function>(dlsym(handle, name));
    if (!function) throw std::runtime_error(std::string("the other library has no ") + name);
}

std::vector<int32_t> prefix_sums(const std::vector<int32_t> &lengths) {
    std::vector<int32_t> sums{0};
    for (const int32_t length : lengths) sums.push_back(sums.back() + length);
    return sums;
}

// Normal numbers as values of a dtype: made for the first quarter million and then repeated at other
// places, since making them must not take longer than the attention.
template <class T, class Make> std::vector<T> numbers(int64_t count, uint32_t seed, Make make) {
    constexpr int64_t kFresh = 1 << 18;
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal;
    std::vector<T> values((size_t)count);
    for (int64_t i = 0; i < count; i++)
        values[i] = i < kFresh ? make(normal(generator)) : values[i - kFresh + i / kFresh % 61];
    return values;
}

} // namespace

Library linked_library() {
    return {vfa_context_create, vfa_context_destroy,  vfa_context_get_info,
            vfa_plan_create,    vfa_plan_destroy,     vfa_plan_get_info,
            vfa_forward_host,   vfa_forward_host_f32, vfa_last_error};
}

Library load_library(const std::string &path) {
    void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) throw std::runtime_error(dlerror());
    Library library;
    find(handle, "vfa_context_create", library.context_create);
    find(handle, "vfa_context_destroy", library.context_destroy);
    find(handle, "vfa_context_get_info", library.context_get_info);
    find(handle, "vfa_plan_create", library.plan_create);
    find(handle, "vfa_plan_destroy", library.plan_destroy);
    find(handle, "vfa_plan_get_info", library.plan_get_info);
    find(handle, "vfa_forward_host", library.forward_host);
    find(handle, "vfa_forward_host_f32", library.forward_host_f32);
    find(handle, "vfa_last_error", library.last_error);
    return library;
}

Tensors::Tensors(const conform::Case &c)
    : cu_seqlens_q(prefix_sums(c.len_q)), cu_seqlens_k(prefix_sums(c.len_k)) {
    const int64_t q = c.total_q() * c.heads_q * c.d;
    const int64_t k = c.total_k() * c.heads_kv * c.d, v = c.total_k() * c.heads_kv * c.dv;
    if (c.dtype == VFA_DTYPE_F32) {
        const auto same = [](float x) { return x; };
        q32 = numbers<float>(q, 1, same);
        k32 = numbers<float>(k, 2, same);
        v32 = numbers<float>(v, 3, same);
    } else {
        const auto half = [&](float x) {
            return conform::to_bits((float)conform::rounded(x, conform::format_of(c.dtype)),
                                    c.dtype);
        };
        q16 = numbers<uint16_t>(q, 1, half);
        k16 = numbers<uint16_t>(k, 2, half);
        v16 = numbers<uint16_t>(v, 3, half);
    }
}

Runner::Runner(const Library &library, const conform::Case &c, const Tensors &tensors,
               vfa_backend backend, const std::string &max_isa, uint32_t threads)
    : library_(library), tensors_(tensors), f32_(c.dtype == VFA_DTYPE_F32) {
    vfa_context_desc context_desc;
    check(vfa_context_desc_init(&context_desc, sizeof context_desc));
    context_desc.num_threads = threads;
    std::snprintf(context_desc.max_isa, sizeof context_desc.max_isa, "%s", max_isa.c_str());
    check(library_.context_create(&context_desc, nullptr, &context_, nullptr));
    vfa_context_info context_info;
    check(vfa_context_info_init(&context_info, sizeof context_info));
    check(library_.context_get_info(context_, &context_info));
    threads_ = context_info.num_threads;

    vfa_attn_desc desc;
    check(vfa_attn_desc_init(&desc, sizeof desc));
    desc.backend = backend;
    desc.dtype = c.dtype;
    desc.heads_q = (uint32_t)c.heads_q;
    desc.heads_kv = (uint32_t)c.heads_kv;
    desc.head_dim = (uint32_t)c.d;
    desc.head_dim_v = (uint32_t)c.dv;
    desc.scale_mode = VFA_SCALE_GIVEN;
    desc.scale = c.used_scale();
    desc.softcap = c.softcap;
    desc.causal = c.causal;
    desc.window_left = c.window_left;
    desc.window_right = c.window_right;
    check(library_.plan_create(context_, &desc, tensors_.cu_seqlens_q.data(),
                               tensors_.cu_seqlens_q.size(), tensors_.cu_seqlens_k.data(),
                               tensors_.cu_seqlens_k.size(), nullptr, 0, nullptr, 0, &plan_,
                               nullptr));
    check(vfa_plan_info_init(&info_, sizeof info_));
    check(library_.plan_get_info(plan_, &info_));

    const size_t o_len = (size_t)(c.total_q() * c.heads_q * c.dv);
    f32_ ? o32_.resize(o_len) : o16_.resize(o_len);
}

Runner::~Runner() {
    library_.plan_destroy(plan_);
    library_.context_destroy(context_);
}

void Runner::check(vfa_status status) const {
    if (status != VFA_OK) throw std::runtime_error(library_.last_error());
}

double Runner::run() {
    const Tensors &t = tensors_;
    const auto start = std::chrono::steady_clock::now();
    const vfa_status status =
        f32_ ? library_.forward_host_f32(plan_, t.q32.data(), t.q32.size(), t.k32.data(),
                                         t.k32.size(), t.v32.data(), t.v32.size(), o32_.data(),
                                         o32_.size(), nullptr, 0, nullptr)
             : library_.forward_host(plan_, t.q16.data(), t.q16.size(), t.k16.data(), t.k16.size(),
                                     t.v16.data(), t.v16.size(), o16_.data(), o16_.size(), nullptr,
                                     0, nullptr);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    check(status);
    return elapsed.count();
}

} // namespace bench
