#include <immintrin.h>

#include "peak_body.hpp"
#include "peak_loops.hpp"

double bench::peak_loop_avx512bf16(int64_t rounds) {
    const __m512bh factor = (__m512bh)_mm512_set1_epi16(0x3a83); // 1e-3
    run_rounds<24>(
        rounds, _mm512_set1_ps(1.0f), [=](__m512 sum) __attribute__((always_inline)) {
            return _mm512_dpbf16_ps(sum, factor, factor);
        });
    return 24 * 16 * 2 * 2;
}
