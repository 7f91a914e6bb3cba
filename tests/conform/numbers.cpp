#include "numbers.hpp"

#include <cfloat>
#include <cmath>
#include <cstring>
#include <vector>

namespace conform {

double Format::roundoff() const { return std::ldexp(1, -precision); }

const Format &format_of(vfa_dtype dtype) {
    static const Format bf16 = {8, -133, 0x1.fep127}, f16 = {11, -24, 65504},
                        f32 = {24, -149, FLT_MAX};
    return dtype == VFA_DTYPE_BF16 ? bf16 : dtype == VFA_DTYPE_F16 ? f16 : f32;
}

double rounded(double x, const Format &format) {
    if (x == 0 || !std::isfinite(x)) return x;
    int exponent; // |x| in [2^(exponent - 1), 2^exponent)
    std::frexp(x, &exponent);
    int last = exponent - format.precision; // exponent of the last place
    if (last < format.unit) last = format.unit;
    const double y = std::ldexp(std::nearbyint(std::ldexp(x, -last)), last);
    return std::fabs(y) > format.largest ? std::copysign(INFINITY, x) : y;
}

uint16_t to_bits(float value, vfa_dtype dtype) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    if (dtype == VFA_DTYPE_BF16) return (uint16_t)(bits >> 16); // the upper half of a float
    const uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (std::isnan(value)) return (uint16_t)(sign | 0x7e00);
    if (std::isinf(value)) return (uint16_t)(sign | 0x7c00);
    if (std::fabs(value) < 0x1p-14f) // subnormal: units of 2^-24
        return (uint16_t)(sign | (uint32_t)(std::fabs(value) * 0x1p24f));
    // 10 bits of mantissa instead of 23, an exponent that counts from -15 instead of -127.
    return (uint16_t)(sign | ((magnitude >> 13) - ((127 - 15) << 10)));
}

namespace {

float f16_value(int bits) {
    const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    const float sign = bits & 0x8000 ? -1.0f : 1.0f;
    if (exponent == 0) return sign * std::ldexp((float)mantissa, -24);
    if (exponent < 31) return sign * std::ldexp((float)(1024 + mantissa), exponent - 25);
    return mantissa ? std::nanf("") : sign * INFINITY;
}

} // namespace

float from_bits(uint16_t bits, vfa_dtype dtype) {
    if (dtype == VFA_DTYPE_F16) {
        static const std::vector<float> values = [] {
            std::vector<float> all;
            for (int n = 0; n < 65536; n++) all.push_back(f16_value(n));
            return all;
        }();
        return values[bits];
    }
    const uint32_t wide = (uint32_t)bits << 16;
    float value;
    std::memcpy(&value, &wide, sizeof value);
    return value;
}

uint64_t Random::next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

double Random::uniform() { return (double)(next() >> 11) * 0x1p-53; }

double Random::normal() {
    const uint64_t bits = next(), mask = (1 << 21) - 1;
    return (double)((bits & mask) + (bits >> 21 & mask) + (bits >> 42 & mask)) * 0x1p-20 - 3;
}

} // namespace conform
