// tiled/vector_math: error bounds of the functions as their comments give them, over the portable
// vectors. The kernel's file is included for its (file-local) vectors; its table gets another name, as
// the library has one.
#define portable_kernels portable_kernels_of_this_test
#include "kernels/cpu/portable/portable.cpp"
#undef portable_kernels

#include "doctest.hpp"

#include <cmath>
#include <limits>

using namespace vfa;
using namespace vfa::cpu;

namespace {

using V = Portable;

// f of one number, in lane `lane` of a vector whose other lanes hold something else.
template <class Function> float lane_of(Function f, float x, int lane = 0) {
    V::F in = V::set1(0.75f);
    in[lane] = x;
    return f(in)[lane];
}

float exp2_fast(float x) { return lane_of(exp2_nonpositive<V, false>, x, 1); }
float exp2_precise(float x) { return lane_of(exp2_nonpositive<V, true>, x, 2); }
float exp2_fast_floored(float x) { return lane_of(exp2_floored<V, false>, x, 3); }
float exp2_precise_floored(float x) { return lane_of(exp2_floored<V, true>, x); }
float log2_of(float x) { return lane_of(log2_positive<V>, x, 1); }
float tanh_of(float x) { return lane_of(tanh_any<V>, x, 2); }

// The largest relative error of f against want over [low, high].
template <class Function, class Want>
double worst(Function f, Want want, double low, double high, int steps) {
    double worst = 0;
    for (int n = 0; n <= steps; n++) {
        const float x = (float)(low + (high - low) * n / steps);
        const double truth = want((double)x);
        const double error = std::fabs(f(x) - truth) / std::fabs(truth);
        if (!(error <= worst)) worst = error; // NaN counts
    }
    return worst;
}

const auto exp2_true = [](double x) { return std::exp2(x); };
const auto tanh_true = [](double x) { return std::tanh(x); };

const float kNan = std::numeric_limits<float>::quiet_NaN();

} // namespace

TEST_CASE("vector_math: 2^x within its bounds") {
    CHECK(worst(exp2_fast, exp2_true, -126, 0, 2'000'000) < 3e-6);
    CHECK(worst(exp2_precise, exp2_true, -126, 0, 2'000'000) < 1.2e-7);
    CHECK(worst(exp2_fast_floored, exp2_true, -126, 0, 500'000) < 3e-6);
    CHECK(worst(exp2_precise_floored, exp2_true, -126, 0, 500'000) < 1.2e-7);
    for (float (*exp2)(float) :
         {exp2_fast, exp2_precise, exp2_fast_floored, exp2_precise_floored}) {
        CHECK(exp2(0.0f) == 1.0f);
        CHECK(exp2(-0.0f) == 1.0f);
        CHECK(std::isnan(exp2(kNan)));
        for (int n = 0; n <= 126; n++) CHECK(exp2((float)-n) == std::ldexp(1.0f, -n));
        // Only the magnitude is promised between -127 and -126.
        for (float x = -127; x < -126; x += 1.0f / 64) {
            CHECK(exp2(x) >= 0);
            CHECK(exp2(x) <= 0x1p-125f);
        }
    }
}

TEST_CASE("vector_math: 2^x far below") {
    for (const float x : {-127.5f, -128.0f, -150.0f, -1000.0f, -1e5f, -1e30f, -kInfinity}) {
        CAPTURE(x);
        CHECK(exp2_fast(x) == 0);
        CHECK(exp2_precise(x) == 0);
    }
    // Floored: above 0 wherever exp is in double, and 0 where that is.
    for (const float x : {-127.5f, -128.0f, -150.0f, -500.0f, -1074.0f}) {
        CAPTURE(x);
        CHECK(exp2_fast_floored(x) == 0x1p-149f);
        CHECK(exp2_precise_floored(x) == 0x1p-149f);
    }
    for (const float x : {-1076.0f, -2000.0f, -1e30f, -kInfinity}) {
        CAPTURE(x);
        CHECK(exp2_fast_floored(x) == 0);
        CHECK(exp2_precise_floored(x) == 0);
    }
}

TEST_CASE("vector_math: log2 of normal numbers") {
    double worst_error = 0;
    for (int exponent = -126; exponent < 128; exponent++)
        for (int n = 0; n < 4000; n++) {
            const float x = std::ldexp((float)(1 + n / 4000.0), exponent);
            const double truth = std::log2((double)x);
            // Absolute 1e-7, and the rounding of the result itself.
            const double error = std::fabs(log2_of(x) - truth) - std::fabs(truth) * 0x1p-24;
            if (!(error <= worst_error)) worst_error = error;
        }
    CHECK(worst_error < 1.2e-7);
    for (int exponent = -126; exponent < 128; exponent++)
        CHECK(log2_of(std::ldexp(1.0f, exponent)) == exponent);
    // Sums are 1 and a bit: there the error must be small beside the result's unit, too.
    CHECK(std::fabs(log2_of(1.0f + 0x1p-20f) - std::log2(1.0 + 0x1p-20)) < 1e-12);
}

TEST_CASE("vector_math: tanh") {
    CHECK(worst(tanh_of, tanh_true, 1e-30, 1e-3, 100'000) < 3e-7);
    CHECK(worst(tanh_of, tanh_true, 1e-3, 12, 2'000'000) < 3e-7);
    CHECK(worst(tanh_of, tanh_true, -12, -1e-3, 500'000) < 3e-7);
    CHECK(tanh_of(0.0f) == 0.0f);
    for (const float x : {20.0f, 100.0f, 1e10f, kInfinity}) {
        CAPTURE(x);
        CHECK(tanh_of(x) == 1.0f);
        CHECK(tanh_of(-x) == -1.0f);
    }
    CHECK(std::isnan(tanh_of(kNan)));
}
