// numbers.hpp - the three element formats by their definition, and random numbers that are the same
// everywhere. Written without a look at the library's own conversions.
#pragma once
#include <cstdint>

#include <vfa/vfa.h>

namespace conform {

struct Format {
    int precision;  // bits of the significand, the hidden one included
    int unit;       // exponent of the smallest subnormal
    double largest; // finite value

    // The largest relative error of rounding once, for normal numbers.
    double roundoff() const;
};
const Format &format_of(vfa_dtype dtype);

// x rounded once, to nearest even; beyond the largest value it is infinite.
double rounded(double x, const Format &format);

// bf16 and f16 bits of a value that the format holds exactly (NaN and infinities included), and back.
uint16_t to_bits(float value, vfa_dtype dtype);
float from_bits(uint16_t bits, vfa_dtype dtype);

class Random {
public:
    explicit Random(uint64_t seed) : state_(seed) {}
    uint64_t next();  // splitmix64
    double uniform(); // [0, 1)
    // Mean 0, variance 1, within [-3, 3]: the sum of three uniform numbers, the same on every machine.
    double normal();
    int64_t below(int64_t limit) { return (int64_t)(next() % (uint64_t)limit); }

private:
    uint64_t state_;
};

} // namespace conform
