// properties.hpp - what the property tests share. They run on every usable engine.
#pragma once
#include <string>
#include <vector>

#include "case.hpp"
#include "doctest.hpp"
#include "library.hpp"
#include "oracle.hpp"

namespace conform {

inline const char *name_of(vfa_dtype dtype) {
    return dtype == VFA_DTYPE_BF16 ? "bf16" : dtype == VFA_DTYPE_F16 ? "f16" : "f32";
}

// Calls body("bf16") and so on. Sanitizers are several times slower: there f16, which differs from bf16
// only in how it is loaded and stored, is left to the program conform.
template <class Body> void for_dtypes(Body body) {
#ifdef VFA_TESTS_SANITIZED
    const std::vector<vfa_dtype> dtypes = {VFA_DTYPE_BF16, VFA_DTYPE_F32};
#else
    const std::vector<vfa_dtype> dtypes = {VFA_DTYPE_BF16, VFA_DTYPE_F16, VFA_DTYPE_F32};
#endif
    for (const vfa_dtype dtype : dtypes) {
        const std::string name = name_of(dtype);
        INFO("dtype=", name);
        body(name);
    }
}

// The engines but for AUTO and VARLEN, which are one of the others: see "bits: Auto and VarLen".
inline const std::vector<Engine> &named_engines() {
    static const std::vector<Engine> named = [] {
        std::vector<Engine> list;
        for (const Engine &engine : engines())
            if (engine.backend != VFA_BACKEND_AUTO && engine.backend != VFA_BACKEND_VARLEN)
                list.push_back(engine);
        return list;
    }();
    return named;
}

// Calls body(engine) for each of them; one that does not support what the body does is reported.
template <class Body> void for_engines(Body body) {
    const std::vector<Engine> &all = named_engines();
    REQUIRE(!all.empty());
    for (const Engine &engine : all) {
        const std::string options = engine.options();
        INFO(options);
        try {
            body(engine);
        } catch (const Failure &failure) {
            if (failure.status == VFA_ERROR_UNSUPPORTED)
                MESSAGE("not supported: ", failure.what());
            else
                FAIL_CHECK(failure.what());
        }
    }
}

// Both.
template <class Body> void for_all(Body body) {
    for_dtypes([&](const std::string &dtype) {
        for_engines([&](const Engine &engine) { body(engine, dtype); });
    });
}

// A problem whose q, k, v the test fills: all zeros so far.
inline Problem zeros(const std::string &text) {
    Problem p{parse_case(text), {}, {}, {}, {}, {}};
    p.q.resize((size_t)(p.total_q() * p.heads_q * p.d));
    p.k.resize((size_t)(p.total_k() * p.heads_kv * p.d));
    p.v.resize((size_t)(p.total_k() * p.heads_kv * p.dv));
    return p;
}

// Each element of row j of v is value(j): j counts the rows of all sequences.
template <class Value> void fill_v(Problem &p, Value value) {
    const size_t row = (size_t)(p.heads_kv * p.dv);
    for (size_t n = 0; n < p.v.size(); n++) p.v[n] = (float)value((int64_t)(n / row));
}

// Runs on every engine and compares with the truth. The message shows where the first difference is.
inline void check_truth(const Problem &problem, const Truth &truth) {
    for_engines([&](const Engine &engine) {
        const std::string wrong = judge(problem, truth, run(engine, problem));
        CHECK_MESSAGE(wrong.empty(), wrong, "\n  ", problem.text);
    });
}
inline void check_truth(const Problem &problem) { check_truth(problem, truth_of(problem)); }

} // namespace conform
