// Vectors of 4 floats by the compiler's own vector extension: SSE2 on x86-64, NEON on arm64, plain
// instructions elsewhere. The tiled kernel for processors without an entry of their own.
#include "kernels/cpu/dispatch.hpp"
#include "kernels/cpu/tiled/attend.hpp"

namespace vfa::cpu {

namespace {

struct Portable {
    static constexpr int kWidth = 4;
    static constexpr int kPack = 1;
    static constexpr int kUnit = 1;
    static constexpr int kDims = 2; // 6 x 2 sums: 16 registers less 2 values, 1 weight
    static constexpr int kRows = 6;
    static constexpr int kKeys[4] = {0, 8, 6, 4}; // likewise: 8 x 1, 6 x 2, 4 x 3 sums

    using F = float __attribute__((vector_size(16)));
    using I = int32_t __attribute__((vector_size(16)));

    VFA_INLINE F set1(float x) { return F{x, x, x, x}; }
    VFA_INLINE F load(const float *p) {
        F x;
        std::memcpy(&x, p, sizeof x);
        return x;
    }
    VFA_INLINE void store(float *p, F x) { std::memcpy(p, &x, sizeof x); }
    VFA_INLINE F broadcast(const float *p) { return set1(*p); }
    VFA_INLINE F fma(F a, F b, F c) {
        return a * b + c;
    } // -ffp-contract=off: rounded twice, everywhere

    VFA_INLINE F dot(F a, F b, F sum) { return fma(a, b, sum); }

    VFA_INLINE F select(I mask, F yes, F no) { return (F)((mask & (I)yes) | (~mask & (I)no)); }
    VFA_INLINE F max(F a, F b) { return select(a > b, a, b); }
    VFA_INLINE F abs(F x) { return (F)((I)x & 0x7fffffff); }
    VFA_INLINE F copy_sign(F magnitude, F sign) {
        return (F)((I)magnitude | ((I)sign & (int32_t)0x80000000));
    }
    VFA_INLINE F select_greater(F x, F than, F value) {
        return select(x > than, value, set1(0.0f));
    }
    VFA_INLINE F select_less(F a, F b, F yes, F no) { return select(a < b, yes, no); }
    VFA_INLINE F replace_minus_infinity(F x) {
        return select(x == set1(-kInfinity), set1(0.0f), x);
    }
    VFA_INLINE F keep_between(F x, int key, const int32_t *first, const int32_t *end, F other) {
        I low, high;
        std::memcpy(&low, first, sizeof low);
        std::memcpy(&high, end, sizeof high);
        const I at = {key, key, key, key};
        return select((at >= low) & (at < high), x, other);
    }
    // Marks are NaN where any x was not finite: 0 * infinity and 0 * NaN are.
    VFA_INLINE F mark_nonfinite(F marks, F x) { return (F)((I)marks | (I)(x * set1(0.0f))); }
    VFA_INLINE bool marked(F x) {
        const I nan = x != x;
        return (nan[0] | nan[1] | nan[2] | nan[3]) != 0;
    }
    // p * 2^n, where shifted = n + 1.5 * 2^23.
    VFA_INLINE F add_to_exponent(F p, F shifted) { return (F)((I)p + ((I)shifted << 23)); }
    VFA_INLINE F split_exponent(F x, F &exponent) {
        const I shift = ((I)x - 0x3f3504f3) >> 23; // 0x3f3504f3 = sqrt(1/2)
        exponent = __builtin_convertvector(shift, F);
        return (F)((I)x - (shift << 23));
    }
    VFA_INLINE void transpose(F (&m)[4]) {
        F t[4];
        for (int i = 0; i < 4; i++) t[i] = F{m[0][i], m[1][i], m[2][i], m[3][i]};
        for (int i = 0; i < 4; i++) m[i] = t[i];
    }

    template <vfa_dtype D>
    VFA_INLINE void load_elements(const typename Element<D>::Type *p, F *to) {
        if constexpr (D == VFA_DTYPE_F32)
            to[0] = load(p);
        else
            to[0] = F{Element<D>::load(p[0]), Element<D>::load(p[1]), Element<D>::load(p[2]),
                      Element<D>::load(p[3])};
    }
    template <vfa_dtype D> VFA_INLINE void load_values(const typename Element<D>::Type *p, F *to) {
        load_elements<D>(p, to);
    }
    template <vfa_dtype D>
    VFA_INLINE void columns(const typename Element<D>::Type *const *rows, F *to) {
        transposed_columns<Portable, D>(rows, to);
    }
    template <vfa_dtype, vfa_dtype Out>
    VFA_INLINE void store_elements(typename Element<Out>::Type *p, const F *from) {
        if constexpr (Out == VFA_DTYPE_F32)
            store(p, from[0]);
        else if constexpr (Out == VFA_DTYPE_BF16)
            for (int i = 0; i < 4; i++) p[i] = float_to_bf16(from[0][i]);
        else
            for (int i = 0; i < 4; i++) p[i] = float_to_f16(from[0][i]);
    }
};

} // namespace

const Kernels portable_kernels = tiled_kernels<Portable>("portable");

} // namespace vfa::cpu
