// avx512.hpp - vectors of 16 floats, for the entries that have AVX-512. Included by their files.
#pragma once
#ifndef VFA_SIMDE // tests build these files against SIMDe's definitions of the same intrinsics
#include <immintrin.h>
#endif

#include "kernels/cpu/dispatch.hpp"
#include "kernels/cpu/tiled/attend.hpp"

namespace vfa::cpu {

namespace {

// AVX-512 F, BW, DQ and VL.
struct Avx512 {
    static constexpr int kWidth = 16;
    static constexpr int kPack = 1;
    static constexpr int kUnit = 1;
    static constexpr int kDims = 4; // 6 x 4 sums: 32 registers less 4 values, 1 weight
    static constexpr int kRows = 6;
    static constexpr int kKeys[4] = {0, 12, 8, 8}; // likewise; row pointers bound the first two

    using F = __m512;

    VFA_INLINE F set1(float x) { return _mm512_set1_ps(x); }
    VFA_INLINE F load(const float *p) { return _mm512_loadu_ps(p); }
    VFA_INLINE void store(float *p, F x) { _mm512_storeu_ps(p, x); }
    VFA_INLINE F broadcast(const float *p) { // p may lead to two bf16 in the caller's memory
        float x;
        std::memcpy(&x, p, sizeof x);
        return set1(x);
    }
    VFA_INLINE F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
    VFA_INLINE F dot(F a, F b, F sum) { return fma(a, b, sum); }
    VFA_INLINE F max(F a, F b) { return _mm512_max_ps(a, b); }
    VFA_INLINE F abs(F x) { return as_float(_mm512_and_si512(bits(x), ints(0x7fffffff))); }
    VFA_INLINE F copy_sign(F magnitude, F sign) {
        return as_float(
            _mm512_or_si512(bits(magnitude), _mm512_andnot_si512(ints(0x7fffffff), bits(sign))));
    }
    VFA_INLINE F select_greater(F x, F than, F value) {
        return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, than, _CMP_GT_OQ), value);
    }
    VFA_INLINE F select_less(F a, F b, F yes, F no) {
        return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), no, yes);
    }
    VFA_INLINE F replace_minus_infinity(F x) {
        return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, set1(-kInfinity), _CMP_NEQ_UQ), x);
    }
    VFA_INLINE F keep_between(F x, int key, const int32_t *first, const int32_t *end, F other) {
        const __m512i at = ints(key);
        const __mmask16 inside = (__mmask16)(_mm512_cmple_epi32_mask(load_int(first), at) &
                                             _mm512_cmpgt_epi32_mask(load_int(end), at));
        return _mm512_mask_blend_ps(inside, other, x);
    }
    // Marks are NaN where any x was not finite: 0 * infinity and 0 * NaN are.
    VFA_INLINE F mark_nonfinite(F marks, F x) {
        return as_float(_mm512_or_si512(bits(marks), bits(x * set1(0.0f))));
    }
    VFA_INLINE bool marked(F x) { return _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q) != 0; }
    // p * 2^n, where shifted = n + 1.5 * 2^23.
    VFA_INLINE F add_to_exponent(F p, F shifted) {
        return as_float(_mm512_add_epi32(bits(p), _mm512_slli_epi32(bits(shifted), 23)));
    }
    VFA_INLINE F split_exponent(F x, F &exponent) {
        const __m512i shift = _mm512_srai_epi32(_mm512_sub_epi32(bits(x), ints(0x3f3504f3)), 23);
        exponent = _mm512_cvtepi32_ps(shift);
        return as_float(_mm512_sub_epi32(bits(x), _mm512_slli_epi32(shift, 23)));
    }
    VFA_INLINE void transpose(F (&m)[16]) {
        F pairs[16], quads[16];
#pragma GCC unroll 8
        for (int i = 0; i < 16; i += 2) {
            pairs[i] = _mm512_unpacklo_ps(m[i], m[i + 1]);
            pairs[i + 1] = _mm512_unpackhi_ps(m[i], m[i + 1]);
        }
        // quads[4 a + c] holds, in each 128-bit part p, column 4 p + c of rows 4 a .. 4 a + 3.
#pragma GCC unroll 4
        for (int i = 0; i < 16; i += 4) {
            quads[i] = _mm512_shuffle_ps(pairs[i], pairs[i + 2], 0x44);
            quads[i + 1] = _mm512_shuffle_ps(pairs[i], pairs[i + 2], 0xEE);
            quads[i + 2] = _mm512_shuffle_ps(pairs[i + 1], pairs[i + 3], 0x44);
            quads[i + 3] = _mm512_shuffle_ps(pairs[i + 1], pairs[i + 3], 0xEE);
        }
#pragma GCC unroll 4
        for (int c = 0; c < 4; c++) {
            const F low01 = _mm512_shuffle_f32x4(quads[c], quads[4 + c], 0x88);
            const F low23 = _mm512_shuffle_f32x4(quads[8 + c], quads[12 + c], 0x88);
            const F high01 = _mm512_shuffle_f32x4(quads[c], quads[4 + c], 0xDD);
            const F high23 = _mm512_shuffle_f32x4(quads[8 + c], quads[12 + c], 0xDD);
            m[c] = _mm512_shuffle_f32x4(low01, low23, 0x88);
            m[4 + c] = _mm512_shuffle_f32x4(high01, high23, 0x88);
            m[8 + c] = _mm512_shuffle_f32x4(low01, low23, 0xDD);
            m[12 + c] = _mm512_shuffle_f32x4(high01, high23, 0xDD);
        }
    }

    template <vfa_dtype D>
    VFA_INLINE void load_elements(const typename Element<D>::Type *p, F *to) {
        if constexpr (D == VFA_DTYPE_F32)
            to[0] = load(p);
        else if constexpr (D == VFA_DTYPE_BF16)
            to[0] = as_float(_mm512_slli_epi32(_mm512_cvtepu16_epi32(load_half(p)), 16));
        else
            to[0] = _mm512_cvtph_ps(load_half(p));
    }
    template <vfa_dtype D> VFA_INLINE void load_values(const typename Element<D>::Type *p, F *to) {
        load_elements<D>(p, to);
    }
    template <vfa_dtype D>
    VFA_INLINE void columns(const typename Element<D>::Type *const *rows, F *to) {
        if constexpr (D == VFA_DTYPE_F32)
            transpose_rows(rows, to);
        else
            transposed_columns<Avx512, D>(rows, to);
    }
    // 16 lanes of each of 16 rows. Parts of 4 lanes are put together by loads, so that half of the
    // shuffles of transpose() remain, within parts.
    VFA_INLINE void transpose_rows(const float *const *rows, F *columns) {
#pragma GCC unroll 4
        for (int x = 0; x < 16; x += 4) {
            F m[4]; // m[r]: lanes x .. x + 3 of the rows r, 4 + r, 8 + r, 12 + r
#pragma GCC unroll 4
            for (int r = 0; r < 4; r++) {
                m[r] = _mm512_castps128_ps512(_mm_loadu_ps(rows[r] + x));
                m[r] = _mm512_insertf32x4(m[r], _mm_loadu_ps(rows[4 + r] + x), 1);
                m[r] = _mm512_insertf32x4(m[r], _mm_loadu_ps(rows[8 + r] + x), 2);
                m[r] = _mm512_insertf32x4(m[r], _mm_loadu_ps(rows[12 + r] + x), 3);
            }
            const F low01 = _mm512_unpacklo_ps(m[0], m[1]), high01 = _mm512_unpackhi_ps(m[0], m[1]);
            const F low23 = _mm512_unpacklo_ps(m[2], m[3]), high23 = _mm512_unpackhi_ps(m[2], m[3]);
            columns[x] = _mm512_shuffle_ps(low01, low23, 0x44);
            columns[x + 1] = _mm512_shuffle_ps(low01, low23, 0xEE);
            columns[x + 2] = _mm512_shuffle_ps(high01, high23, 0x44);
            columns[x + 3] = _mm512_shuffle_ps(high01, high23, 0xEE);
        }
    }
    template <vfa_dtype, vfa_dtype Out>
    VFA_INLINE void store_elements(typename Element<Out>::Type *p, const F *from) {
        if constexpr (Out == VFA_DTYPE_F32)
            store(p, from[0]);
        else if constexpr (Out == VFA_DTYPE_BF16)
            store_half(p, round_to_bf16(from[0]));
        else
            store_half(p, _mm512_cvtps_ph(from[0], _MM_FROUND_TO_NEAREST_INT));
    }

    VFA_INLINE __m512i bits(F x) { return _mm512_castps_si512(x); }
    VFA_INLINE F as_float(__m512i x) { return _mm512_castsi512_ps(x); }
    VFA_INLINE __m512i ints(int x) { return _mm512_set1_epi32(x); }
    VFA_INLINE __m512i load_int(const int32_t *p) { return _mm512_loadu_si512(p); }
    VFA_INLINE __m256i load_half(const uint16_t *p) {
        return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(p));
    }
    VFA_INLINE void store_half(uint16_t *p, __m256i x) {
        _mm256_storeu_si256(reinterpret_cast<__m256i *>(p), x);
    }
    // As float_to_bf16. (VCVTNEPS2BF16 would flush subnormals.)
    VFA_INLINE __m256i round_to_bf16(F x) {
        const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits(x), 16), ints(1));
        const __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(bits(x), ints(0x7fff)), odd);
        const __m512i quiet = _mm512_or_si512(bits(x), ints(0x00400000));
        const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
        return _mm512_cvtepi32_epi16(
            _mm512_srli_epi32(_mm512_mask_blend_epi32(nan, rounded, quiet), 16));
    }
};

} // namespace

} // namespace vfa::cpu
