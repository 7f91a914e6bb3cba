// peak_body.hpp - the loop that peak_*.cpp instantiate. Local to the including file, as it is compiled
// for one instruction set.
#pragma once
#include <cstdint>

#if defined(__x86_64__)
#define VFA_VECTOR_REGISTER "v" // any of them, 16 to 31 included
#else
#define VFA_VECTOR_REGISTER "w"
#endif

namespace {

// Sums enough that each addition is long done when its turn comes again, and few enough that all stay
// in registers. step(sum) -> sum is one multiply-add of a vector.
template <int kSums, class Vector, class Step>
inline __attribute__((always_inline)) void run_rounds(int64_t rounds, Vector start, Step step) {
    Vector sums[kSums];
#pragma GCC unroll 32
    for (int i = 0; i < kSums; i++) {
        sums[i] = start;
        asm volatile(""
                     : "+" VFA_VECTOR_REGISTER(sums[i])); // else equal sums would be computed once
    }
    for (int64_t round = 0; round < rounds; round++) {
#pragma GCC unroll 32
        for (int i = 0; i < kSums; i++) sums[i] = step(sums[i]);
    }
#pragma GCC unroll 32
    for (int i = 0; i < kSums; i++)
        asm volatile("" ::VFA_VECTOR_REGISTER(sums[i])); // the result is used
}

} // namespace
