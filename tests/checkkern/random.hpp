// random.hpp - the same numbers everywhere for the same seed.
#pragma once
#include <cstdint>

namespace checkkern {

class Random {
public:
    explicit Random(uint64_t seed) : state_(seed) {}

    uint64_t next() { // splitmix64
        uint64_t z = state_ += 0x9e3779b97f4a7c15;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
        z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
        return z ^ (z >> 31);
    }
    int64_t below(int64_t limit) { return (int64_t)(next() % (uint64_t)limit); }
    double uniform() { return (double)(next() >> 11) * 0x1p-53; } // [0, 1)
    // Mean 0, variance 1, within [-3, 3]: the sum of three uniform numbers.
    double normal() {
        const uint64_t bits = next(), mask = (1 << 21) - 1;
        return (double)((bits & mask) + (bits >> 21 & mask) + (bits >> 42 & mask)) * 0x1p-20 - 3;
    }

private:
    uint64_t state_;
};

} // namespace checkkern
