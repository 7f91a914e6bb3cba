#include "library.hpp"

#include <algorithm>
#include <cstring>
#include <map>

#include "numbers.hpp"

namespace conform {

namespace {

void check(vfa_status status, const vfa_error &error) {
    if (status != VFA_OK) throw Failure(status, error.message);
}
void check(vfa_status status) {
    if (status != VFA_OK) throw Failure(status, vfa_last_error());
}

// Rows that do not belong to the sequence, after sequence b.
int32_t gap_after(size_t b) {
    static constexpr int32_t gaps[] = {0, 3, 1, 0, 7, 2};
    return gaps[b % std::size(gaps)];
}

std::vector<int32_t> prefix_sums(const std::vector<int32_t> &lengths, bool gaps) {
    std::vector<int32_t> cu = {0};
    for (size_t b = 0; b < lengths.size(); b++)
        cu.push_back(cu.back() + lengths[b] + (gaps ? gap_after(b) : 0));
    return cu;
}

constexpr std::byte kPattern{0x5a};
constexpr int64_t kTail = 37; // elements

} // namespace

// -------------------------------------------------------------------------------------- engines

std::string Engine::options() const {
    return std::string("--backend ") + vfa_backend_name(backend) +
           (isa.empty() ? "" : " --isa " + isa);
}

namespace {

template <class Usable, class Not> void walk_engines(Usable usable, Not not_usable) {
    for (int id = 0; vfa_backend_name((vfa_backend)id); id++) {
        const vfa_backend backend = (vfa_backend)id;
        vfa_backend_info info;
        check(vfa_backend_info_init(&info, sizeof info));
        check(vfa_backend_query(backend, 0, &info));
        if (!info.available) {
            not_usable(Unusable{vfa_backend_name(backend), info.reason});
            continue;
        }
        if (backend != VFA_BACKEND_CPU) {
            usable(Engine{backend, ""});
            continue;
        }
        for (uint32_t index = 0; index < vfa_isa_count(); index++) {
            vfa_isa_info isa;
            check(vfa_isa_info_init(&isa, sizeof isa));
            check(vfa_isa_query(index, &isa));
            if (isa.available)
                usable(Engine{backend, isa.name});
            else
                not_usable(Unusable{std::string("Cpu ") + isa.name, isa.reason});
        }
    }
}

} // namespace

std::vector<Engine> engines() {
    std::vector<Engine> list;
    walk_engines([&](const Engine &engine) { list.push_back(engine); }, [](const Unusable &) {});
    return list;
}

std::vector<Unusable> unusable_engines() {
    std::vector<Unusable> list;
    walk_engines([](const Engine &) {},
                 [&](const Unusable &unusable) { list.push_back(unusable); });
    return list;
}

Context make_context(const Engine &engine, uint32_t num_threads, const vfa_hooks *hooks) {
    vfa_context_desc desc;
    check(vfa_context_desc_init(&desc, sizeof desc));
    desc.num_threads = num_threads;
    engine.isa.copy(desc.max_isa, sizeof desc.max_isa - 1);
    vfa_context *ctx = nullptr;
    vfa_error error;
    check(vfa_context_create(&desc, hooks, &ctx, &error), error);
    return Context(ctx);
}

vfa_context *context_of(const Engine &engine) {
    static std::map<std::string, Context> contexts;
    Context &ctx = contexts[engine.isa];
    if (!ctx) ctx = make_context(engine);
    return ctx.get();
}

// ---------------------------------------------------------------------------------------- memory

std::byte *Call::Tensor::at(int64_t element) const {
    return memory->data() + (size_t)(first + element) * bytes;
}
template <class T> T *Call::Tensor::data() const {
    return memory->empty() ? nullptr : reinterpret_cast<T *>(at(0));
}

Call::Tensor Call::make_tensor(int64_t rows, int64_t heads, int64_t dim, size_t bytes) const {
    Tensor t{};
    t.bytes = bytes;
    t.dim = dim;
    t.head = dim;
    t.token = heads * dim;
    if (layout_.strides == Layout::Strides::padded) {
        t.head = dim + 3;
        t.token = heads * t.head + 5;
    } else if (layout_.strides == Layout::Strides::heads) {
        t.token = dim;
        t.head = rows * dim;
    }
    t.first = layout_.offset ? 1 : 0;
    t.len = rows == 0 ? 0 : (rows - 1) * t.token + (heads - 1) * t.head + dim;
    if (layout_.tails) t.len += kTail;
    t.memory = std::make_shared<std::vector<std::byte>>((size_t)(t.first + t.len) * bytes);
    return t;
}

// One [rows][heads_q d + heads_kv d + heads_kv dv] array, as a projection leaves it.
void Call::make_fused(int64_t rows) {
    const Problem &p = problem_;
    const int64_t q_dims = p.heads_q * p.d, k_dims = p.heads_kv * p.d, v_dims = p.heads_kv * p.dv;
    const int64_t token = q_dims + k_dims + v_dims, first = q_.first;
    const auto memory =
        std::make_shared<std::vector<std::byte>>((size_t)(first + rows * token) * q_.bytes);
    const auto part = [&](Tensor &t, int64_t offset, int64_t dims, int64_t used_rows) {
        t.memory = memory;
        t.first = first + offset;
        t.head = t.dim;
        t.token = token;
        t.len = used_rows == 0 ? 0 : (used_rows - 1) * token + dims;
    };
    part(q_, 0, q_dims, cu_q_.back());
    part(k_, q_dims, k_dims, cu_k_.back());
    part(v_, q_dims + k_dims, v_dims, cu_k_.back());
}

template <class Visit>
void Call::for_rows(const Tensor &t, const std::vector<int32_t> &cu,
                    const std::vector<int32_t> &lengths, int64_t heads, Visit visit) const {
    int64_t index = 0;
    for (size_t b = 0; b < lengths.size(); b++)
        for (int64_t row = cu[b]; row < cu[b] + lengths[b]; row++)
            for (int64_t head = 0; head < heads; head++, index += t.dim)
                visit(index, row * t.token + head * t.head);
}

void Call::put(const Tensor &t, const std::vector<int32_t> &cu, const std::vector<int32_t> &lengths,
               int64_t heads, const std::vector<float> &values) {
    const vfa_dtype dtype = problem_.dtype;
    for_rows(t, cu, lengths, heads, [&](int64_t index, int64_t element) {
        for (int64_t x = 0; x < t.dim; x++) {
            const float value = values[(size_t)(index + x)];
            const uint16_t bits = dtype == VFA_DTYPE_F32 ? (uint16_t)0 : to_bits(value, dtype);
            if (dtype == VFA_DTYPE_F32)
                std::memcpy(t.at(element + x), &value, sizeof value);
            else
                std::memcpy(t.at(element + x), &bits, sizeof bits);
        }
    });
}

Call::Call(const Problem &problem, const Layout &layout) : problem_(problem), layout_(layout) {
    const Problem &p = problem;
    cu_q_ = prefix_sums(p.len_q, layout.gaps);
    cu_k_ = prefix_sums(p.len_k, layout.gaps);
    const int64_t rows_q = cu_q_.back(), rows_k = cu_k_.back();
    const size_t bytes = p.dtype == VFA_DTYPE_F32 ? 4 : 2;
    q_ = make_tensor(rows_q, p.heads_q, p.d, bytes);
    k_ = make_tensor(rows_k, p.heads_kv, p.d, bytes);
    v_ = make_tensor(rows_k, p.heads_kv, p.dv, bytes);
    if (layout.strides == Layout::Strides::fused) make_fused(std::max(rows_q, rows_k));
    o_ = make_tensor(rows_q, p.heads_q, p.dv, p.o_dtype() == VFA_DTYPE_F32 ? 4 : 2);

    layout_.strides = Layout::Strides::packed; // lse has a layout of its own
    lse_ = make_tensor(rows_q, p.heads_q, 1, 4);
    layout_.strides = layout.strides;
    if (layout.lse == Layout::Lse::heads && rows_q > 0) {
        lse_.token = 1;
        lse_.head = rows_q;
    } else if (layout.lse == Layout::Lse::padded && rows_q > 0) {
        lse_.head = 2;
        lse_.token = 2 * p.heads_q + 1;
        lse_.len = (rows_q - 1) * lse_.token + (p.heads_q - 1) * lse_.head + 1;
        lse_.memory->resize((size_t)(lse_.first + lse_.len) * 4);
    }

    for (const Tensor *t : {&q_, &k_, &v_})
        std::fill(t->memory->begin(), t->memory->end(), std::byte{0xff}); // NaN in all formats
    for (const Tensor *t : {&o_, &lse_}) std::fill(t->memory->begin(), t->memory->end(), kPattern);
    put(q_, cu_q_, p.len_q, p.heads_q, p.q);
    put(k_, cu_k_, p.len_k, p.heads_kv, p.k);
    put(v_, cu_k_, p.len_k, p.heads_kv, p.v);
    q_before_ = *q_.memory;
    k_before_ = *k_.memory;
    v_before_ = *v_.memory;
}

// ----------------------------------------------------------------------------------------- calls

vfa_attn_desc Call::desc(vfa_backend backend) const {
    const Problem &p = problem_;
    vfa_attn_desc d;
    check(vfa_attn_desc_init(&d, sizeof d));
    d.backend = backend;
    d.dtype = p.dtype;
    d.o_f32 = p.o_f32;
    d.heads_q = (uint32_t)p.heads_q;
    d.heads_kv = (uint32_t)p.heads_kv;
    d.head_dim = (uint32_t)p.d;
    d.head_dim_v = (uint32_t)p.dv;
    if (p.scale) {
        d.scale_mode = VFA_SCALE_GIVEN;
        d.scale = *p.scale;
    }
    d.softcap = p.softcap;
    d.causal = p.causal;
    d.window_left = p.window_left;
    d.window_right = p.window_right;
    for (size_t b = 0; layout_.hints && b < p.num_seqs(); b++) {
        d.max_seqlen_q = std::max(d.max_seqlen_q, p.len_q[b]);
        d.max_seqlen_k = std::max(d.max_seqlen_k, p.len_k[b]);
    }
    if (layout_.strides != Layout::Strides::packed) {
        d.q_token_stride = q_.token, d.q_head_stride = q_.head;
        d.k_token_stride = k_.token, d.k_head_stride = k_.head;
        d.v_token_stride = v_.token, d.v_head_stride = v_.head;
        d.o_token_stride = o_.token, d.o_head_stride = o_.head;
    }
    if (layout_.lse == Layout::Lse::heads || layout_.lse == Layout::Lse::padded)
        d.lse_token_stride = lse_.token, d.lse_head_stride = lse_.head;
    return d;
}

Plan Call::make_plan(vfa_context *ctx, vfa_backend backend) const {
    const Problem &p = problem_;
    const vfa_attn_desc d = desc(backend);
    const std::vector<int32_t> none;
    const std::vector<int32_t> &used_q = layout_.gaps ? p.len_q : none;
    const std::vector<int32_t> &used_k = layout_.gaps ? p.len_k : none;
    vfa_error error;
    vfa_plan *made = nullptr;
    check(vfa_plan_create(ctx, &d, cu_q_.data(), cu_q_.size(), cu_k_.data(), cu_k_.size(),
                          used_q.data(), used_q.size(), used_k.data(), used_k.size(), &made,
                          &error),
          error);
    Plan plan(made);
    if (!p.slopes.empty())
        check(vfa_plan_set_alibi(made, p.slopes.data(), p.slopes.size(), &error), error);
    if (!p.sink_logits.empty())
        check(vfa_plan_set_sinks(made, p.sink_logits.data(), p.sink_logits.size(), &error), error);
    return plan;
}

void Call::update(vfa_plan *plan) const {
    const Problem &p = problem_;
    const std::vector<int32_t> none;
    const std::vector<int32_t> &used_q = layout_.gaps ? p.len_q : none;
    const std::vector<int32_t> &used_k = layout_.gaps ? p.len_k : none;
    vfa_error error;
    check(vfa_plan_update(plan, cu_q_.data(), cu_q_.size(), cu_k_.data(), cu_k_.size(),
                          used_q.data(), used_q.size(), used_k.data(), used_k.size(), &error),
          error);
}

void Call::forward(const vfa_plan *plan) {
    const bool with_lse = layout_.lse != Layout::Lse::none;
    float *lse = with_lse ? lse_.data<float>() : nullptr;
    const size_t lse_len = with_lse ? (size_t)lse_.len : 0;
    const size_t q_len = (size_t)q_.len, k_len = (size_t)k_.len, v_len = (size_t)v_.len,
                 o_len = (size_t)o_.len;
    vfa_error error;
    vfa_status status;
    if (problem_.dtype == VFA_DTYPE_F32)
        status = vfa_forward_host_f32(plan, q_.data<float>(), q_len, k_.data<float>(), k_len,
                                      v_.data<float>(), v_len, o_.data<float>(), o_len, lse,
                                      lse_len, &error);
    else if (problem_.o_f32)
        status = vfa_forward_host_o_f32(plan, q_.data<uint16_t>(), q_len, k_.data<uint16_t>(),
                                        k_len, v_.data<uint16_t>(), v_len, o_.data<float>(), o_len,
                                        lse, lse_len, &error);
    else
        status = vfa_forward_host(plan, q_.data<uint16_t>(), q_len, k_.data<uint16_t>(), k_len,
                                  v_.data<uint16_t>(), v_len, o_.data<uint16_t>(), o_len, lse,
                                  lse_len, &error);
    check(status, error);

    vfa_plan_info info;
    check(vfa_plan_info_init(&info, sizeof info));
    check(vfa_plan_get_info(plan, &info));
    kernel_ = info.kernel;
}

void Call::varlen_forward() {
    const Problem &p = problem_;
    const size_t q_len = (size_t)q_.len, k_len = (size_t)k_.len, v_len = (size_t)v_.len,
                 o_len = (size_t)o_.len, lse_len = (size_t)lse_.len;
    vfa_error error;
    const uint32_t hq = (uint32_t)p.heads_q, hkv = (uint32_t)p.heads_kv, d = (uint32_t)p.d;
    if (p.dtype == VFA_DTYPE_F32)
        check(vfa_varlen_forward_f32(
                  q_.data<float>(), q_len, k_.data<float>(), k_len, v_.data<float>(), v_len,
                  o_.data<float>(), o_len, lse_.data<float>(), lse_len, cu_q_.data(), cu_q_.size(),
                  cu_k_.data(), cu_k_.size(), hq, hkv, d, 0, 0, p.used_scale(), p.causal, &error),
              error);
    else
        check(vfa_varlen_forward(p.dtype, q_.data<uint16_t>(), q_len, k_.data<uint16_t>(), k_len,
                                 v_.data<uint16_t>(), v_len, o_.data<uint16_t>(), o_len,
                                 lse_.data<float>(), lse_len, cu_q_.data(), cu_q_.size(),
                                 cu_k_.data(), cu_k_.size(), hq, hkv, d, 0, 0, p.used_scale(),
                                 p.causal, &error),
              error);
}

Result Call::result() const {
    const Problem &p = problem_;
    Result result;
    result.kernel = kernel_;
    const auto take = [&](const Tensor &t, vfa_dtype dtype, std::vector<float> &values,
                          const char *name) {
        values.resize((size_t)(p.total_q() * p.heads_q * t.dim));
        // What should be there: the pattern, but for the rows.
        std::vector<std::byte> expected(t.memory->size(), kPattern);
        for_rows(t, cu_q_, p.len_q, p.heads_q, [&](int64_t index, int64_t element) {
            const size_t at = (size_t)(t.at(element) - t.memory->data());
            std::memcpy(expected.data() + at, t.at(element), (size_t)t.dim * t.bytes);
            for (int64_t x = 0; x < t.dim; x++) {
                float &value = values[(size_t)(index + x)];
                if (dtype == VFA_DTYPE_F32) {
                    std::memcpy(&value, t.at(element + x), sizeof value);
                } else {
                    uint16_t bits;
                    std::memcpy(&bits, t.at(element + x), sizeof bits);
                    value = from_bits(bits, dtype);
                }
            }
        });
        const auto [wrong, _] = std::mismatch(t.memory->begin(), t.memory->end(), expected.begin());
        if (wrong != t.memory->end())
            result.damage =
                std::string(name) + " was written outside the sequences: element " +
                std::to_string((wrong - t.memory->begin()) / (ptrdiff_t)t.bytes - t.first);
    };
    take(o_, p.o_dtype(), result.o, "o");
    if (layout_.lse != Layout::Lse::none) take(lse_, VFA_DTYPE_F32, result.lse, "lse");
    if (*q_.memory != q_before_) result.damage = "q was changed";
    if (*k_.memory != k_before_) result.damage = "k was changed";
    if (*v_.memory != v_before_) result.damage = "v was changed";
    return result;
}

bool Result::same_bits(const Result &other) const {
    const auto same = [](const std::vector<float> &a, const std::vector<float> &b) {
        return a.size() == b.size() &&
               (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
    };
    return same(o, other.o) && same(lse, other.lse);
}

Result run(const Engine &engine, const Problem &problem, const Layout &layout, vfa_context *ctx) {
    Call call(problem, layout);
    const Plan plan = call.make_plan(ctx ? ctx : context_of(engine), engine.backend);
    call.forward(plan.get());
    return call.result();
}

} // namespace conform
