// AVX-512 with VDPBF16PS (Cooper Lake 2020, Sapphire Rapids, Zen 4 and newer): bf16 is multiplied
// as it is, two products a lane, twice the rate of float. P is rounded to bf16 for it. f16 and f32
// are left to the AVX-512 entry.
//
// VDPBF16PS takes subnormal inputs as 0 (Intel SDM): values below 1.2e-38 are lost.
#include "kernels/cpu/x86/avx512.hpp"

namespace vfa::cpu {

namespace {

struct Avx512Bf16 : Avx512 {
    static constexpr int kPack = 2;

    VFA_INLINE F dot(F a, F b, F sum) {
        return _mm512_dpbf16_ps(sum, (__m512bh)bits(a), (__m512bh)bits(b));
    }

    // A packed lane is two bf16 as they are.
    template <vfa_dtype> VFA_INLINE void load_elements(const uint16_t *p, F *to) {
        to[0] = as_float(_mm512_loadu_si512(p));
    }
    template <vfa_dtype> VFA_INLINE void columns(const uint16_t *const *rows, F *to) {
        const float *lanes[kWidth];
        for (int lane = 0; lane < kWidth; lane++)
            lanes[lane] = reinterpret_cast<const float *>(rows[lane]);
        transpose_rows(lanes, to);
    }
    // Lane x: value x of two keys.
    VFA_INLINE F pair_values(const uint16_t *even, const uint16_t *odd) {
        const __m512i low = _mm512_cvtepu16_epi32(load_half(even));
        const __m512i high = _mm512_slli_epi32(_mm512_cvtepu16_epi32(load_half(odd)), 16);
        return as_float(_mm512_or_si512(low, high));
    }
    // Lane r: the weights of row r for two keys. They are finite, or a NaN that came from a bf16:
    // its low half is 0, so that rounding by addition cannot carry out of it.
    VFA_INLINE F pair_weights(F even, F odd) {
        const __m512i low = _mm512_srli_epi32(round(even), 16);
        return as_float(_mm512_mask_blend_epi16(0xAAAAAAAA, low, round(odd)));
    }
    // Marks are the largest exponent so far in each half.
    VFA_INLINE F mark_nonfinite(F marks, F lanes) {
        return as_float(_mm512_max_epu16(bits(marks), _mm512_and_si512(bits(lanes), exponents())));
    }
    VFA_INLINE bool marked(F marks) {
        return _mm512_cmpeq_epi16_mask(bits(marks), exponents()) != 0;
    }

private:
    VFA_INLINE __m512i exponents() { return _mm512_set1_epi16(0x7f80); }
    VFA_INLINE __m512i round(F x) {
        const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits(x), 16), ints(1));
        return _mm512_add_epi32(_mm512_add_epi32(bits(x), ints(0x7fff)), odd);
    }
};

// f16 and f32 are the AVX-512 entry's.
template <vfa_dtype D> void attend_by_avx512(const AttendArgs &args) noexcept {
    avx512_kernels.attend[D](args);
}

int64_t rows_per_call_of(const Shape &shape) {
    return shape.dtype == VFA_DTYPE_BF16 ? rows_per_call<Avx512Bf16>(shape)
                                         : avx512_kernels.rows_per_call(shape);
}

size_t scratch_bytes_of(const Shape &shape) {
    return shape.dtype == VFA_DTYPE_BF16 ? scratch_bytes<Avx512Bf16>(shape)
                                         : avx512_kernels.scratch_bytes(shape);
}

} // namespace

const Kernels avx512bf16_kernels = {
    "avx512bf16",
    rows_per_call_of,
    scratch_bytes_of,
    {attend<Avx512Bf16, VFA_DTYPE_BF16>, attend_by_avx512<VFA_DTYPE_F16>,
     attend_by_avx512<VFA_DTYPE_F32>},
};

} // namespace vfa::cpu
