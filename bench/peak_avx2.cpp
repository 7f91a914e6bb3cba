#include <immintrin.h>

#include "peak_body.hpp"
#include "peak_loops.hpp"

double bench::peak_loop_avx2(int64_t rounds) {
    const __m256 factor = _mm256_set1_ps(1e-3f);
    run_rounds<12>(
        rounds, factor, [=](__m256 sum) __attribute__((always_inline)) {
            return _mm256_fmadd_ps(factor, factor, sum);
        });
    return 12 * 8 * 2;
}
