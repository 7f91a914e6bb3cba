// dtype.hpp - bf16 and f16 to and from float, one value at a time.
//
// Everything here is `static inline`: files compiled for a newer instruction set include it, and
// a shared (comdat) copy from such a file must never serve the rest of the library.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <vfa/vfa.h>

namespace vfa {

// The element type that a dtype has in memory, and the conversions. One struct per dtype.
template <vfa_dtype> struct Element;

static inline uint32_t float_bits(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float bits_float(uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

static inline float bf16_to_float(uint16_t bits) { return bits_float((uint32_t)bits << 16); }

// Round to nearest even; a NaN stays a NaN (made quiet, so that rounding cannot empty its
// mantissa).
static inline uint16_t float_to_bf16(float value) {
    const uint32_t bits = float_bits(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((bits >> 16) | 0x0040u);
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

static inline float f16_to_float(uint16_t bits) {
    const uint32_t sign = (uint32_t)(bits & 0x8000u) << 16;
    const uint32_t magnitude = bits & 0x7fffu;
    if (magnitude >= 0x7c00u) // infinity, NaN
        return bits_float(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
    if (magnitude >= 0x0400u) // normal: exponent bias 15 -> 127
        return bits_float(sign | ((magnitude << 13) + ((127u - 15u) << 23)));
    const float subnormal = (float)magnitude * 0x1p-24f; // exact
    return bits_float(sign | float_bits(subnormal));
}

static inline uint16_t float_to_f16(float value) {
    const uint32_t bits = float_bits(value);
    const uint32_t sign = (bits >> 16) & 0x8000u;
    const uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu)); // NaN, quiet
    if (magnitude >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); // rounds to 65536: infinity
    if (magnitude <
        0x38800000u) { // below 2^-14: adding 0.5 puts the f16 subnormal's unit, 2^-24, into
                       // the last mantissa bit, so the addition itself rounds to nearest even
        const float shifted = bits_float(magnitude) + 0.5f;
        return (uint16_t)(sign | (float_bits(shifted) - 0x3f000000u));
    }
    const uint32_t rebiased = magnitude - ((127u - 15u) << 23);
    return (uint16_t)(sign | ((rebiased + 0xfffu + ((rebiased >> 13) & 1u)) >> 13));
}

template <> struct Element<VFA_DTYPE_BF16> {
    using Type = uint16_t;
    static float load(uint16_t bits) { return bf16_to_float(bits); }
    static uint16_t store(float value) { return float_to_bf16(value); }
};
template <> struct Element<VFA_DTYPE_F16> {
    using Type = uint16_t;
    static float load(uint16_t bits) { return f16_to_float(bits); }
    static uint16_t store(float value) { return float_to_f16(value); }
};
template <> struct Element<VFA_DTYPE_F32> {
    using Type = float;
    static float load(float value) { return value; }
    static float store(float value) { return value; }
};

static inline size_t dtype_bytes(vfa_dtype dtype) { return dtype == VFA_DTYPE_F32 ? 4 : 2; }

} // namespace vfa
