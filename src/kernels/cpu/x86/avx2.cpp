// Vectors of 8 floats: AVX2, FMA and F16C (Haswell 2013, Zen 2017 and newer).
#include <immintrin.h>

#include "kernels/cpu/dispatch.hpp"
#include "kernels/cpu/tiled/attend.hpp"

namespace vfa::cpu {

namespace {

struct Avx2 {
    static constexpr int kWidth = 8;
    static constexpr int kPack = 1;
    static constexpr int kUnit = 2; // 16 bf16 are one load
    static constexpr int kDims = 2; // 6 x 2 sums: 16 registers less 2 values, 1 weight
    static constexpr int kRows = 6;
    static constexpr int kKeys[4] = {0, 8, 6, 4}; // likewise: 8 x 1, 6 x 2, 4 x 3 sums

    using F = __m256;

    VFA_INLINE F set1(float x) { return _mm256_set1_ps(x); }
    VFA_INLINE F load(const float *p) { return _mm256_loadu_ps(p); }
    VFA_INLINE void store(float *p, F x) { _mm256_storeu_ps(p, x); }
    VFA_INLINE F broadcast(const float *p) { return _mm256_broadcast_ss(p); }
    VFA_INLINE F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
    VFA_INLINE F dot(F a, F b, F sum) { return fma(a, b, sum); }
    VFA_INLINE F max(F a, F b) { return _mm256_max_ps(a, b); }
    VFA_INLINE F abs(F x) { return _mm256_andnot_ps(set1(-0.0f), x); }
    VFA_INLINE F copy_sign(F magnitude, F sign) {
        return _mm256_or_ps(magnitude, _mm256_and_ps(sign, set1(-0.0f)));
    }
    VFA_INLINE F select_greater(F x, F than, F value) {
        return _mm256_and_ps(_mm256_cmp_ps(x, than, _CMP_GT_OQ), value);
    }
    VFA_INLINE F select_less(F a, F b, F yes, F no) {
        return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
    }
    VFA_INLINE F replace_minus_infinity(F x) {
        return _mm256_andnot_ps(_mm256_cmp_ps(x, set1(-kInfinity), _CMP_EQ_OQ), x);
    }
    VFA_INLINE F keep_between(F x, int key, const int32_t *first, const int32_t *end, F other) {
        const __m256i at = _mm256_set1_epi32(key);
        const __m256i before = _mm256_cmpgt_epi32(load_int(first), at);
        const __m256i inside = _mm256_andnot_si256(before, _mm256_cmpgt_epi32(load_int(end), at));
        return _mm256_blendv_ps(other, x, _mm256_castsi256_ps(inside));
    }
    // Marks are NaN where any x was not finite: 0 * infinity and 0 * NaN are.
    VFA_INLINE F mark_nonfinite(F marks, F x) { return _mm256_or_ps(marks, x * set1(0.0f)); }
    VFA_INLINE bool marked(F x) {
        return _mm256_movemask_ps(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)) != 0;
    }
    // p * 2^n, where shifted = n + 1.5 * 2^23.
    VFA_INLINE F add_to_exponent(F p, F shifted) {
        const __m256i n = _mm256_slli_epi32(_mm256_castps_si256(shifted), 23);
        return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), n));
    }
    VFA_INLINE F split_exponent(F x, F &exponent) {
        const __m256i bits = _mm256_castps_si256(x);
        const __m256i root_half = _mm256_set1_epi32(0x3f3504f3);
        const __m256i shift = _mm256_srai_epi32(_mm256_sub_epi32(bits, root_half), 23);
        exponent = _mm256_cvtepi32_ps(shift);
        return _mm256_castsi256_ps(_mm256_sub_epi32(bits, _mm256_slli_epi32(shift, 23)));
    }
    VFA_INLINE void transpose(F (&m)[8]) {
        F pairs[8], quads[8];
        for (int i = 0; i < 8; i += 2) {
            pairs[i] = _mm256_unpacklo_ps(m[i], m[i + 1]);
            pairs[i + 1] = _mm256_unpackhi_ps(m[i], m[i + 1]);
        }
        for (int i = 0; i < 8; i += 4) {
            quads[i] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0x44);
            quads[i + 1] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0xEE);
            quads[i + 2] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0x44);
            quads[i + 3] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0xEE);
        }
        for (int i = 0; i < 4; i++) {
            m[i] = _mm256_permute2f128_ps(quads[i], quads[4 + i], 0x20);
            m[4 + i] = _mm256_permute2f128_ps(quads[i], quads[4 + i], 0x31);
        }
    }

    // 16 elements as two vectors. bf16 is split into even and odd elements: one load and two cheap
    // instructions, no shuffle; Q, K, V and O all have that order, and store_elements undoes it.
    template <vfa_dtype D>
    VFA_INLINE void load_elements(const typename Element<D>::Type *p, F *to) {
        if constexpr (D == VFA_DTYPE_F32) {
            to[0] = load(p);
            to[1] = load(p + 8);
        } else if constexpr (D == VFA_DTYPE_BF16) {
            const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(p));
            to[0] = _mm256_castsi256_ps(_mm256_slli_epi32(bits, 16));
            to[1] = _mm256_castsi256_ps(_mm256_and_si256(bits, high_half()));
        } else {
            to[0] = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p)));
            to[1] = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p + 8)));
        }
    }

    template <vfa_dtype D> VFA_INLINE void load_values(const typename Element<D>::Type *p, F *to) {
        load_elements<D>(p, to);
    }

    // bf16 is transposed as pairs, and then split: half the shuffles.
    template <vfa_dtype D>
    VFA_INLINE void columns(const typename Element<D>::Type *const *rows, F *to) {
        if constexpr (D == VFA_DTYPE_BF16) {
            F pairs[8];
            for (int lane = 0; lane < 8; lane++)
                pairs[lane] = load(reinterpret_cast<const float *>(rows[lane]));
            transpose(pairs);
            for (int x = 0; x < 8; x++) {
                const __m256i bits = _mm256_castps_si256(pairs[x]);
                to[x] = _mm256_castsi256_ps(_mm256_slli_epi32(bits, 16));
                to[8 + x] = _mm256_castsi256_ps(_mm256_and_si256(bits, high_half()));
            }
        } else {
            transposed_columns<Avx2, D>(rows, to);
        }
    }

    template <vfa_dtype D, vfa_dtype Out>
    VFA_INLINE void store_elements(typename Element<Out>::Type *p, const F *from) {
        if constexpr (Out == VFA_DTYPE_BF16) { // D is bf16, too
            const __m256i even = _mm256_srli_epi32(round_to_bf16(from[0]), 16);
            store_int(p, _mm256_blend_epi16(even, round_to_bf16(from[1]), 0xAA));
        } else if constexpr (Out == VFA_DTYPE_F16) {
            const __m128i low = _mm256_cvtps_ph(from[0], _MM_FROUND_TO_NEAREST_INT);
            const __m128i high = _mm256_cvtps_ph(from[1], _MM_FROUND_TO_NEAREST_INT);
            store_int(p, _mm256_set_m128i(high, low));
        } else {
            F low = from[0], high = from[1];
            if constexpr (D == VFA_DTYPE_BF16) {
                const F a = _mm256_unpacklo_ps(from[0], from[1]);
                const F b = _mm256_unpackhi_ps(from[0], from[1]);
                low = _mm256_permute2f128_ps(a, b, 0x20);
                high = _mm256_permute2f128_ps(a, b, 0x31);
            }
            store(p, low);
            store(p + 8, high);
        }
    }

private:
    VFA_INLINE __m256i high_half() { return _mm256_set1_epi32((int)0xffff0000); }
    VFA_INLINE __m256i load_int(const int32_t *p) {
        return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(p));
    }
    VFA_INLINE void store_int(void *p, __m256i x) {
        _mm256_storeu_si256(static_cast<__m256i *>(p), x);
    }
    // bf16 bits in the high halves; the low halves are garbage. As float_to_bf16.
    VFA_INLINE __m256i round_to_bf16(F x) {
        const __m256i bits = _mm256_castps_si256(x);
        const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
        const __m256i rounded =
            _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
        const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x00400000));
        const F nan = _mm256_cmp_ps(x, x, _CMP_UNORD_Q);
        return _mm256_castps_si256(
            _mm256_blendv_ps(_mm256_castsi256_ps(rounded), _mm256_castsi256_ps(quiet), nan));
    }
};

} // namespace

const Kernels avx2_kernels = tiled_kernels<Avx2>("avx2");

} // namespace vfa::cpu
