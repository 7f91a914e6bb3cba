// core/dtype: every bf16 and f16 pattern, and every place where rounding changes its mind.
#include "core/dtype.hpp"

#include "doctest.hpp"

#include <cmath>
#include <limits>
#include <random>
#include <string>

using namespace vfa;

namespace {

// A 16-bit format by its numbers: precision counts the hidden bit, unit is the exponent of the smallest
// subnormal.
struct Format {
    const char *name;
    int precision, unit, exponent_bits;
    float (*decode)(uint16_t);
    uint16_t (*encode)(float);

    int mantissa_bits() const { return precision - 1; }
    uint16_t infinity() const { return (uint16_t)(((1u << exponent_bits) - 1) << mantissa_bits()); }

    // What a pattern means, by the definition of IEEE formats.
    double value(uint16_t bits) const {
        const int exponent = (bits & 0x7fff) >> mantissa_bits();
        const int mantissa = bits & ((1 << mantissa_bits()) - 1);
        const double sign = bits & 0x8000 ? -1 : 1;
        if (exponent == (1 << exponent_bits) - 1)
            return mantissa ? std::numeric_limits<double>::quiet_NaN()
                            : sign * std::numeric_limits<double>::infinity();
        if (exponent == 0) return sign * std::ldexp(mantissa, unit);
        return sign * std::ldexp(mantissa + (1 << mantissa_bits()), unit + exponent - 1);
    }
};

const Format kBf16 = {"bf16", 8, -133, 8, bf16_to_float, float_to_bf16};
const Format kF16 = {"f16", 11, -24, 5, f16_to_float, float_to_f16};

bool is_nan(const Format &format, uint16_t bits) { return (bits & 0x7fff) > format.infinity(); }

// Where doubles are too many to CHECK one by one: counts, and shows the first that is wrong.
struct Tally {
    int wrong = 0;
    std::string first;
    void expect(bool right, const char *what, double value, unsigned got) {
        if (!right && wrong++ == 0)
            first = std::string(what) + " " + std::to_string(value) + " -> " + std::to_string(got);
    }
};

} // namespace

TEST_CASE("dtype: every pattern means what the format says, and comes back") {
    for (const Format &format : {kBf16, kF16}) {
        CAPTURE(format.name);
        Tally tally;
        for (uint32_t bits = 0; bits < 65536; bits++) {
            const float value = format.decode((uint16_t)bits);
            const uint16_t back = format.encode(value);
            if (is_nan(format, (uint16_t)bits)) {
                tally.expect(std::isnan(value), "NaN lost", bits, 0);
                tally.expect(is_nan(format, back), "NaN not kept", bits, back);
                tally.expect((back & 0x8000) == (bits & 0x8000), "sign of NaN", bits, back);
                // A quiet NaN comes back bit for bit; a signalling one becomes quiet.
                const uint16_t quiet = (uint16_t)(bits | 1u << (format.mantissa_bits() - 1));
                tally.expect(back == quiet, "payload of NaN", bits, back);
            } else {
                tally.expect(value == format.value((uint16_t)bits), "value of", bits, back);
                tally.expect(std::signbit(value) == !!(bits & 0x8000), "sign of", bits, back);
                tally.expect(back == bits, "not the same again", bits, back);
            }
        }
        INFO(tally.first);
        CHECK(tally.wrong == 0);
    }
}

TEST_CASE("dtype: ties go to the even neighbour, all else to the nearer one") {
    for (const Format &format : {kBf16, kF16}) {
        CAPTURE(format.name);
        Tally tally;
        // Between each finite value and the next; beyond the largest, the next is where it would be if
        // the format went on, and means infinity.
        for (uint32_t low = 0; low < format.infinity(); low++) {
            const uint16_t high = (uint16_t)(low + 1);
            const double below = format.value((uint16_t)low);
            const double above =
                high == format.infinity()
                    ? below + std::ldexp(1, std::ilogb(below) - format.mantissa_bits())
                    : format.value(high);
            const float middle =
                (float)((below + above) / 2); // exact: one bit more than the format has
            const float before = std::nextafter(middle, 0.0f);
            const float after = std::nextafter(middle, std::numeric_limits<float>::infinity());
            const uint16_t even = low % 2 == 0 ? (uint16_t)low : high;
            for (const uint16_t sign : {0x0000, 0x8000}) {
                const auto signed_bits = [&](float x) { return format.encode(sign ? -x : x); };
                tally.expect(signed_bits(middle) == (even | sign), "tie", middle,
                             signed_bits(middle));
                tally.expect(signed_bits(before) == (low | sign), "before", before,
                             signed_bits(before));
                tally.expect(signed_bits(after) == (high | sign), "after", after,
                             signed_bits(after));
            }
        }
        INFO(tally.first);
        CHECK(tally.wrong == 0);
    }
}

TEST_CASE("dtype: edges of float") {
    const float infinity = std::numeric_limits<float>::infinity();
    const float largest = std::numeric_limits<float>::max();
    const float smallest = std::numeric_limits<float>::denorm_min();
    for (const Format &format : {kBf16, kF16}) {
        CAPTURE(format.name);
        CHECK(format.encode(infinity) == format.infinity());
        CHECK(format.encode(-infinity) == (format.infinity() | 0x8000));
        CHECK(format.encode(largest) == format.infinity());
        CHECK(format.encode(-largest) == (format.infinity() | 0x8000));
        CHECK(format.encode(smallest) == 0);
        CHECK(format.encode(-smallest) == 0x8000);
        CHECK(format.encode(0.0f) == 0);
        CHECK(format.encode(-0.0f) == 0x8000);
        CHECK(format.encode(1.0f) == format.encode(format.decode(format.encode(1.0f))));
        // A NaN whose payload is only in the bits that rounding drops must not become infinity.
        for (const uint32_t bits : {0x7f800001u, 0x7fffffffu, 0xff800001u, 0xffffffffu}) {
            CAPTURE(bits);
            CHECK(is_nan(format, format.encode(bits_float(bits))));
        }
    }
    CHECK(float_to_f16(65504.0f) == 0x7bff);
    CHECK(float_to_f16(65519.996f) == 0x7bff);
    CHECK(float_to_f16(65520.0f) == 0x7c00);
    CHECK(float_to_bf16(1.0f) == 0x3f80);
    CHECK(float_to_f16(1.0f) == 0x3c00);
}

#ifdef __FLT16_MANT_DIG__ // the compiler's own half
TEST_CASE("dtype: f16 as the compiler converts it") {
    Tally tally;
    std::mt19937 random(1);
    for (int n = 0; n < 4'000'000; n++) {
        const float value = bits_float((uint32_t)random());
        const _Float16 half = (_Float16)value;
        uint16_t want;
        std::memcpy(&want, &half, sizeof want);
        const uint16_t got = float_to_f16(value);
        if (std::isnan(value))
            tally.expect(is_nan(kF16, got), "NaN", n, got);
        else
            tally.expect(got == want, "not as the compiler", value, got);
    }
    for (uint32_t bits = 0; bits < 65536; bits++) {
        const uint16_t half_bits = (uint16_t)bits;
        _Float16 half;
        std::memcpy(&half, &half_bits, sizeof half);
        const float want = (float)half, got = f16_to_float(half_bits);
        tally.expect(std::isnan(want) ? std::isnan(got) : want == got, "decodes otherwise", want,
                     bits);
    }
    INFO(tally.first);
    CHECK(tally.wrong == 0);
}
#endif

TEST_CASE("dtype: Element says the type and the size") {
    CHECK(Element<VFA_DTYPE_BF16>::load(Element<VFA_DTYPE_BF16>::store(-2.5f)) == -2.5f);
    CHECK(Element<VFA_DTYPE_F16>::load(Element<VFA_DTYPE_F16>::store(-2.5f)) == -2.5f);
    CHECK(Element<VFA_DTYPE_F32>::load(Element<VFA_DTYPE_F32>::store(0.1f)) == 0.1f);
    CHECK(Element<VFA_DTYPE_BF16>::store(1.0f) != Element<VFA_DTYPE_F16>::store(1.0f));
    CHECK(dtype_bytes(VFA_DTYPE_BF16) == sizeof(Element<VFA_DTYPE_BF16>::Type));
    CHECK(dtype_bytes(VFA_DTYPE_F16) == sizeof(Element<VFA_DTYPE_F16>::Type));
    CHECK(dtype_bytes(VFA_DTYPE_F32) == sizeof(Element<VFA_DTYPE_F32>::Type));
}
