// vector_math.hpp - 2^x, log2 and tanh over the vectors of an instruction set V.
//
// Included by the files of single instruction sets; everything is local to the including file.
#pragma once
#include "core/dtype.hpp"

#define VFA_INLINE static inline __attribute__((always_inline))

namespace vfa::cpu {
namespace {

constexpr float kInfinity = __builtin_inff();
constexpr float kLog2e = 1.4426950408889634f;
constexpr float kLn2 = 0.6931471805599453f;

// 2^x for x <= 0. Exactly 1 at 0 and exactly 0 below -127; NaN stays NaN. Relative error 3e-6, or
// with precise 1e-7. Rounding to an integer by adding 1.5 * 2^23, then a polynomial on [-0.5, 0.5]
// (minimax, degree 4 or 6), then the integer added to the exponent. Between -127 and -126 only the
// magnitude is right: such a weight is 1e-38 of the row's largest.
template <class V, bool precise> VFA_INLINE typename V::F exp2_nonpositive(typename V::F x) {
    const typename V::F magic = V::set1(12582912.0f);
    x = V::max(V::set1(-127.0f), x); // V::max gives its second argument if either is NaN
    const typename V::F shifted = x + magic;
    const typename V::F fraction = x - (shifted - magic);
    typename V::F p;
    if constexpr (precise) {
        p = V::set1(0.0001535336164f);
        p = V::fma(p, fraction, V::set1(0.001339887492f));
        p = V::fma(p, fraction, V::set1(0.009618437363f));
        p = V::fma(p, fraction, V::set1(0.0555033247f));
        p = V::fma(p, fraction, V::set1(0.2402264791f));
        p = V::fma(p, fraction, V::set1(0.6931472029f));
    } else {
        p = V::set1(0.009582852393f);
        p = V::fma(p, fraction, V::set1(0.05590642892f));
        p = V::fma(p, fraction, V::set1(0.2402409865f));
        p = V::fma(p, fraction, V::set1(0.6931241928f));
    }
    p = V::fma(p, fraction, V::set1(1.0f));
    return V::add_to_exponent(p, shifted);
}

// The same, but 0 only where exp is 0 in double, too (x < -745 log2 e): a weight of 0 would turn an
// infinite accumulator or value into NaN. The floor is the smallest float; in a sum it changes
// nothing.
template <class V, bool precise> VFA_INLINE typename V::F exp2_floored(typename V::F x) {
    const typename V::F floor = V::select_greater(x, V::set1(-1075.0f), V::set1(0x1p-149f));
    return V::max(floor, exp2_nonpositive<V, precise>(x));
}

// log2 of a normal positive number; absolute error 1e-7. x = 2^e * m with m in [sqrt(1/2),
// sqrt(2)), and log2 m = 2 log2(e) * atanh((m - 1) / (m + 1)) by its series.
template <class V> VFA_INLINE typename V::F log2_positive(typename V::F x) {
    typename V::F exponent;
    const typename V::F m = V::split_exponent(x, exponent);
    const typename V::F s = (m - V::set1(1.0f)) / (m + V::set1(1.0f)), z = s * s;
    typename V::F p = V::set1(2 * kLog2e / 9);
    p = V::fma(p, z, V::set1(2 * kLog2e / 7));
    p = V::fma(p, z, V::set1(2 * kLog2e / 5));
    p = V::fma(p, z, V::set1(2 * kLog2e / 3));
    p = V::fma(p, z, V::set1(2 * kLog2e));
    return V::fma(p, s, exponent);
}

// tanh, relative error 3e-7. Near 0 an odd polynomial (coefficients of Cephes' tanhf), else
// (1 - t) / (1 + t) with t = exp(-2 |x|).
template <class V> VFA_INLINE typename V::F tanh_any(typename V::F x) {
    const typename V::F magnitude = V::abs(x), z = x * x;
    typename V::F p = V::set1(-5.70498872745e-3f);
    p = V::fma(p, z, V::set1(2.06390887954e-2f));
    p = V::fma(p, z, V::set1(-5.37397155531e-2f));
    p = V::fma(p, z, V::set1(1.33314422036e-1f));
    p = V::fma(p, z, V::set1(-3.33332819422e-1f));
    const typename V::F small = V::fma(p * z, x, x);
    const typename V::F t = exp2_nonpositive<V, true>(magnitude * V::set1(-2 * kLog2e));
    const typename V::F large = V::copy_sign((V::set1(1.0f) - t) / (V::set1(1.0f) + t), x);
    return V::select_less(magnitude, V::set1(0.625f), small, large);
}

} // namespace
} // namespace vfa::cpu
