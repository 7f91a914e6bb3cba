/* The AVX-512 intrinsics by SIMDe (plain C and AVX2) under their own names: the files of
 * src/kernels/cpu/x86 are built against it where VFA_SIMDE is defined. */
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>

/* What SIMDe 0.7 lacks, as Intel defines it. */

static inline simde__m512 vfa_cvtepi32_ps(simde__m512i x) {
    const simde__m512i_private from = simde__m512i_to_private(x);
    simde__m512_private result;
    for (int i = 0; i < 16; i++) result.f32[i] = (float)from.i32[i];
    return simde__m512_from_private(result);
}
#undef _mm512_cvtepi32_ps
#define _mm512_cvtepi32_ps(x) vfa_cvtepi32_ps(x)

static inline simde__m512i vfa_srai_epi32(simde__m512i x, unsigned count) {
    const simde__m512i_private from = simde__m512i_to_private(x);
    simde__m512i_private result;
    for (int i = 0; i < 16; i++) result.i32[i] = from.i32[i] >> (count < 31 ? count : 31);
    return simde__m512i_from_private(result);
}
#undef _mm512_srai_epi32
#define _mm512_srai_epi32(x, count) vfa_srai_epi32(x, count)

/* Conversions between 16 and 32 bits, by halves. */
static inline simde__m512i vfa_cvtepu16_epi32(simde__m256i x) {
    const simde__m256i_private from = simde__m256i_to_private(x);
    simde__m512i_private result;
    for (int i = 0; i < 16; i++) result.u32[i] = from.u16[i];
    return simde__m512i_from_private(result);
}
#undef _mm512_cvtepu16_epi32
#define _mm512_cvtepu16_epi32(x) vfa_cvtepu16_epi32(x)

static inline simde__m256i vfa_cvtepi32_epi16(simde__m512i x) {
    const simde__m512i_private from = simde__m512i_to_private(x);
    simde__m256i_private result;
    for (int i = 0; i < 16; i++) result.u16[i] = (uint16_t)from.u32[i];
    return simde__m256i_from_private(result);
}
#undef _mm512_cvtepi32_epi16
#define _mm512_cvtepi32_epi16(x) vfa_cvtepi32_epi16(x)

static inline simde__m512 vfa_cvtph_ps(simde__m256i x) {
    simde__m512_private result;
    result.m256[0] = _mm256_cvtph_ps(_mm256_castsi256_si128(x));
    result.m256[1] = _mm256_cvtph_ps(_mm256_extracti128_si256(x, 1));
    return simde__m512_from_private(result);
}
#undef _mm512_cvtph_ps
#define _mm512_cvtph_ps(x) vfa_cvtph_ps(x)

/* The rounding is always to nearest even here. */
static inline simde__m256i vfa_cvtps_ph(simde__m512 x) {
    const simde__m512_private from = simde__m512_to_private(x);
    return _mm256_set_m128i(_mm256_cvtps_ph(from.m256[1], _MM_FROUND_TO_NEAREST_INT),
                            _mm256_cvtps_ph(from.m256[0], _MM_FROUND_TO_NEAREST_INT));
}
#undef _mm512_cvtps_ph
#define _mm512_cvtps_ph(x, rounding) vfa_cvtps_ph(x)

static inline simde__mmask32 vfa_cmpeq_epi16_mask(simde__m512i a, simde__m512i b) {
    const simde__m512i_private from_a = simde__m512i_to_private(a);
    const simde__m512i_private from_b = simde__m512i_to_private(b);
    simde__mmask32 result = 0;
    for (int i = 0; i < 32; i++) result |= (simde__mmask32)(from_a.i16[i] == from_b.i16[i]) << i;
    return result;
}
#undef _mm512_cmpeq_epi16_mask
#define _mm512_cmpeq_epi16_mask(a, b) vfa_cmpeq_epi16_mask(a, b)

/* Two 128-bit parts of a, then two of b. */
static inline simde__m512 vfa_shuffle_f32x4(simde__m512 a, simde__m512 b, int control) {
    const simde__m512_private from_a = simde__m512_to_private(a);
    const simde__m512_private from_b = simde__m512_to_private(b);
    simde__m512_private result;
    for (int part = 0; part < 4; part++)
        result.m128[part] = (part < 2 ? from_a : from_b).m128[(control >> (2 * part)) & 3];
    return simde__m512_from_private(result);
}
#undef _mm512_shuffle_f32x4
#define _mm512_shuffle_f32x4(a, b, control) vfa_shuffle_f32x4(a, b, control)
