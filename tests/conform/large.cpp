// Strides above 2^31 elements, over memory of which only a few pages exist.
#include <cstring>

#include "numbers.hpp"
#include "properties.hpp"

#ifdef __linux__
#include <cerrno>
#include <sys/mman.h>
#endif

using namespace conform;

#ifdef __linux__

namespace {

// A [tokens][heads][dim] tensor far apart in one direction.
struct Far {
    int64_t token, head, len;
    size_t bytes;
    void *memory = MAP_FAILED;

    Far(int64_t tokens, int64_t heads, int64_t dim, bool far_tokens, size_t element_bytes)
        : bytes(element_bytes) {
        const int64_t far = ((int64_t)1 << 31) + 24;
        head = far_tokens ? dim : far;
        token = far_tokens ? far : dim;
        len = (tokens - 1) * token + (heads - 1) * head + dim;
        memory = mmap(nullptr, (size_t)len * bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    }
    ~Far() {
        if (memory != MAP_FAILED) munmap(memory, (size_t)len * bytes);
    }
    Far(const Far &) = delete;

    // Moves the dense rows in, or out.
    template <class Move>
    void rows(const std::vector<float> &dense, int64_t heads, int64_t dim, Move move) {
        for (int64_t n = 0; n < (int64_t)dense.size(); n++) {
            const int64_t row = n / dim, at = row / heads * token + row % heads * head + n % dim;
            move((size_t)n, (char *)memory + (size_t)at * bytes);
        }
    }
    void put(const std::vector<float> &dense, int64_t heads, int64_t dim, vfa_dtype dtype) {
        rows(dense, heads, dim, [&](size_t n, char *to) {
            const uint16_t half = dtype == VFA_DTYPE_F32 ? (uint16_t)0 : to_bits(dense[n], dtype);
            if (dtype == VFA_DTYPE_F32)
                std::memcpy(to, &dense[n], 4);
            else
                std::memcpy(to, &half, 2);
        });
    }
    void get(std::vector<float> &dense, int64_t heads, int64_t dim, vfa_dtype dtype) {
        rows(dense, heads, dim, [&](size_t n, const char *from) {
            uint16_t half;
            if (dtype == VFA_DTYPE_F32) {
                std::memcpy(&dense[n], from, 4);
            } else {
                std::memcpy(&half, from, 2);
                dense[n] = from_bits(half, dtype);
            }
        });
    }
};

} // namespace

TEST_CASE("strides above 2^31 elements") {
    bool refused = false;
    int error = 0;
    for (const bool far_tokens : {true, false})
        for_all([&](const Engine &engine, const std::string &dtype) {
            if (dtype == "f16" || refused) return; // the same addresses as bf16
            CAPTURE(far_tokens);
            const Problem p =
                make_problem(parse_case("seqs=1,2/2,1 hq=4 hkv=2 d=16 dv=8 dtype=" + dtype));
            const size_t bytes = p.dtype == VFA_DTYPE_F32 ? 4 : 2;
            Far q(3, 4, 16, far_tokens, bytes), k(3, 2, 16, far_tokens, bytes),
                v(3, 2, 8, far_tokens, bytes), o(3, 4, 8, far_tokens, bytes),
                lse(3, 4, 1, far_tokens, 4);
            for (const Far *tensor : {&q, &k, &v, &o, &lse})
                if (tensor->memory == MAP_FAILED) {
                    refused = true;
                    error = errno;
                    return;
                }
            q.put(p.q, 4, 16, p.dtype);
            k.put(p.k, 2, 16, p.dtype);
            v.put(p.v, 2, 8, p.dtype);

            vfa_attn_desc desc = Call(p, p.layout).desc(engine.backend);
            desc.q_token_stride = q.token, desc.q_head_stride = q.head;
            desc.k_token_stride = k.token, desc.k_head_stride = k.head;
            desc.v_token_stride = v.token, desc.v_head_stride = v.head;
            desc.o_token_stride = o.token, desc.o_head_stride = o.head;
            desc.lse_token_stride = lse.token, desc.lse_head_stride = lse.head;
            const int32_t cu_q[] = {0, 1, 3}, cu_k[] = {0, 2, 3};
            vfa_plan *made = nullptr;
            REQUIRE_MESSAGE(vfa_plan_create(context_of(engine), &desc, cu_q, 3, cu_k, 3, nullptr, 0,
                                            nullptr, 0, &made, nullptr) == VFA_OK,
                            vfa_last_error());
            const Plan plan(made);
            const auto forward = [&](auto function, auto *type) {
                using T = std::remove_pointer_t<decltype(type)>;
                return function(made, (T *)q.memory, (size_t)q.len, (T *)k.memory, (size_t)k.len,
                                (T *)v.memory, (size_t)v.len, (T *)o.memory, (size_t)o.len,
                                (float *)lse.memory, (size_t)lse.len, nullptr);
            };
            const vfa_status status = p.dtype == VFA_DTYPE_F32
                                          ? forward(vfa_forward_host_f32, (float *)nullptr)
                                          : forward(vfa_forward_host, (uint16_t *)nullptr);
            REQUIRE_MESSAGE(status == VFA_OK, vfa_last_error());
            Result result;
            result.o.resize(3u * 4 * 8);
            result.lse.resize(3u * 4);
            o.get(result.o, 4, 8, p.dtype);
            lse.get(result.lse, 4, 1, VFA_DTYPE_F32);
            CHECK(judge(p, truth_of(p), result) == "");
            CHECK(result.same_bits(run(engine, p)));
        });
    if (refused)
        vfa_test::skip(std::string("the system does not map 17 GB of sparse memory: ") +
                       std::strerror(error));
}

#else

TEST_CASE("strides above 2^31 elements") { vfa_test::skip("needs mmap of sparse memory"); }

#endif
