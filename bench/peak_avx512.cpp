#include <immintrin.h>

#include "peak_body.hpp"
#include "peak_loops.hpp"

double bench::peak_loop_avx512(int64_t rounds) {
    const __m512 factor = _mm512_set1_ps(1e-3f);
    run_rounds<24>(
        rounds, factor, [=](__m512 sum) __attribute__((always_inline)) {
            return _mm512_fmadd_ps(factor, factor, sum);
        });
    return 24 * 16 * 2;
}
