// What the tests of the C API share: owners of handles, and a small batch of sequences.
#pragma once

#include <vfa/vfa.h>

#include "doctest.hpp"

#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace vfa_test {

struct Destroy {
    void operator()(vfa_context *ctx) const { vfa_context_destroy(ctx); }
    void operator()(vfa_plan *plan) const { vfa_plan_destroy(plan); }
};
using Context = std::unique_ptr<vfa_context, Destroy>;
using Plan = std::unique_ptr<vfa_plan, Destroy>;

// For CAPTURE, which prints a char * as an address.
inline std::string name(vfa_backend backend) { return vfa_backend_name(backend); }

inline vfa_context_desc context_desc() {
    vfa_context_desc desc;
    REQUIRE(vfa_context_desc_init(&desc, sizeof desc) == VFA_OK);
    return desc;
}

inline vfa_hooks no_hooks() {
    vfa_hooks hooks;
    REQUIRE(vfa_hooks_init(&hooks, sizeof hooks) == VFA_OK);
    return hooks;
}

inline Context make_context(const vfa_context_desc *desc = nullptr,
                            const vfa_hooks *hooks = nullptr) {
    vfa_context *ctx = nullptr;
    const vfa_status status = vfa_context_create(desc, hooks, &ctx, nullptr);
    REQUIRE_MESSAGE(status == VFA_OK, vfa_last_error());
    REQUIRE(ctx);
    return Context(ctx);
}

// A ragged batch with all its buffers; one sequence has no query. T: the element type of q, k, v;
// O: that of o.
template <class T, class O = T> struct Batch {
    vfa_attn_desc desc;
    std::vector<int32_t> cu_q{0, 3, 3, 8}, cu_k{0, 5, 9, 16};
    std::vector<T> q, k, v;
    std::vector<O> o;
    std::vector<float> lse;

    explicit Batch(vfa_backend backend = VFA_BACKEND_AUTO) {
        REQUIRE(vfa_attn_desc_init(&desc, sizeof desc) == VFA_OK);
        desc.backend = backend;
        desc.dtype = std::is_same_v<T, float> ? VFA_DTYPE_F32 : VFA_DTYPE_BF16;
        desc.o_f32 = !std::is_same_v<T, O>;
        desc.heads_q = 4;
        desc.heads_kv = 2;
        desc.head_dim = 40;
        desc.causal = VFA_CAUSAL_BOTTOM_RIGHT;
        fill();
    }

    // Sizes the buffers for desc and cu_*, and fills the inputs with values that all differ a bit.
    void fill() {
        const size_t rows_q = size_t(cu_q.back()), rows_k = size_t(cu_k.back());
        fill(q, rows_q * desc.heads_q * desc.head_dim, 0);
        fill(k, rows_k * desc.heads_kv * desc.head_dim, 1);
        fill(v, rows_k * desc.heads_kv * desc.head_dim, 2);
        o.assign(rows_q * desc.heads_q * desc.head_dim, O(-9));
        lse.assign(rows_q * desc.heads_q, -9.0f);
    }

    vfa_status create(vfa_context *ctx, vfa_plan **plan, vfa_error *error = nullptr) const {
        return vfa_plan_create(ctx, &desc, cu_q.data(), cu_q.size(), cu_k.data(), cu_k.size(),
                               nullptr, 0, nullptr, 0, plan, error);
    }

    Plan make_plan(vfa_context *ctx) const {
        vfa_plan *plan = nullptr;
        const vfa_status status = create(ctx, &plan);
        REQUIRE_MESSAGE(status == VFA_OK, vfa_last_error());
        REQUIRE(plan);
        return Plan(plan);
    }

    vfa_status forward(const vfa_plan *plan, vfa_error *error = nullptr) {
        auto call = [&](auto function) {
            return function(plan, q.data(), q.size(), k.data(), k.size(), v.data(), v.size(),
                            o.data(), o.size(), lse.data(), lse.size(), error);
        };
        if constexpr (std::is_same_v<T, float>)
            return call(vfa_forward_host_f32);
        else if constexpr (std::is_same_v<O, float>)
            return call(vfa_forward_host_o_f32);
        else
            return call(vfa_forward_host);
    }

private:
    static void fill(std::vector<T> &values, size_t count, unsigned seed) {
        values.resize(count);
        for (size_t i = 0; i < count; ++i) {
            const float x = float((i * 7919 + seed * 104729) % 257) / 128.0f - 1.0f;
            if constexpr (std::is_same_v<T, float>) {
                values[i] = x;
            } else { // bf16, cut off
                uint32_t bits;
                std::memcpy(&bits, &x, sizeof bits);
                values[i] = T(bits >> 16);
            }
        }
    }
};

// The bits of o and lse.
template <class T, class O> std::string bits(const Batch<T, O> &batch) {
    std::string all(reinterpret_cast<const char *>(batch.o.data()), batch.o.size() * sizeof(O));
    return all.append(reinterpret_cast<const char *>(batch.lse.data()),
                      batch.lse.size() * sizeof(float));
}

// A call that fails: with this status, and a sentence in both places.
template <class Call> void check_fails(vfa_status want, Call call) {
    vfa_error error{VFA_OK, ""};
    const vfa_status status = call(&error);
    CHECK(status == want);
    CHECK(error.status == want);
    CHECK(error.message[0] != '\0');
    CHECK(std::memchr(error.message, '\0', sizeof error.message));
    CHECK(std::string(error.message) == vfa_last_error());
}

} // namespace vfa_test
