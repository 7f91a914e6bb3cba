// The definition: the scores of one row materialised, everything in double. Slow, and obvious.
#include <cmath>
#include <limits>

#include "core/dtype.hpp"
#include "kernels/cpu/dispatch.hpp"

namespace vfa::cpu {

namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

// The logit of query i and key j: see the formula at vfa_attn_desc.
double logit(const AttendArgs &args, double dot, int64_t i, int64_t j, int64_t head) {
    double s = args.scale * dot;
    if (args.softcap > 0) s = args.softcap * std::tanh(s / args.softcap);
    if (args.alibi_slopes)
        s -= args.alibi_slopes[head] * std::fabs((double)(i + args.alibi_offset - j));
    return s;
}

// Writes o (null: a row of zeros) over sum.
template <class Out, class Store>
void write_row(Out *to, const double *o, double sum, int32_t head_dim_v, Store store) {
    for (int32_t x = 0; x < head_dim_v; x++) to[x] = store(o ? (float)(o[x] / sum) : 0.0f);
}

// One row. scores: [visible.num_keys].
template <vfa_dtype D> void attend_row(const AttendArgs &args, int64_t row, double *scores) {
    using T = typename Element<D>::Type;
    const int64_t i = row / args.group, head = row % args.group;
    const int64_t first = first_key(args.visible, i), end = end_key(args.visible, i);
    const double sink = args.sinks ? args.sinks[head] : kMinusInfinity;

    const T *q =
        static_cast<const T *>(args.q) + i * args.q_token_stride + head * args.q_head_stride;
    double max = sink;
    bool nan = false;
    for (int64_t j = first; j < end; j++) {
        const T *k = static_cast<const T *>(args.k) + j * args.k_token_stride;
        double dot = 0;
        for (int32_t x = 0; x < args.head_dim; x++)
            dot += (double)Element<D>::load(q[x]) * Element<D>::load(k[x]);
        scores[j] = logit(args, dot, i, j, head);
        max = std::fmax(max, scores[j]);
        nan = nan || std::isnan(scores[j]);
    }

    // Without a NaN, a maximum of -infinity means that there is nothing to see: o = 0, lse =
    // -infinity.
    const bool empty = max == kMinusInfinity && !nan;
    double sum = sink == kMinusInfinity ? 0 : std::exp(sink - max);
    double o[256] = {};
    for (int64_t j = first; j < end && !empty; j++) {
        const T *v = static_cast<const T *>(args.v) + j * args.v_token_stride;
        const double p = std::exp(scores[j] - max);
        sum += p;
        for (int32_t x = 0; x < args.head_dim_v; x++) o[x] += p * Element<D>::load(v[x]);
    }

    const int64_t at = i * args.o_token_stride + head * args.o_head_stride;
    const double *numerator = empty ? nullptr : o;
    if (args.o_f32)
        write_row(static_cast<float *>(args.o) + at, numerator, sum, args.head_dim_v,
                  Element<VFA_DTYPE_F32>::store);
    else
        write_row(static_cast<T *>(args.o) + at, numerator, sum, args.head_dim_v,
                  Element<D>::store);
    if (args.lse)
        args.lse[i * args.lse_token_stride + head * args.lse_head_stride] =
            (float)(empty ? kMinusInfinity : max + std::log(sum));
}

template <vfa_dtype D> void attend(const AttendArgs &args) noexcept {
    for (int64_t row = args.row_begin; row < args.row_end; row++)
        attend_row<D>(args, row, static_cast<double *>(args.scratch));
}

} // namespace

const Kernels math_kernels = {
    "math",
    [](const Shape &) -> int64_t { return 64; }, // any number will do: rows share nothing
    [](const Shape &shape) { return (size_t)shape.max_keys * sizeof(double); },
    {attend<VFA_DTYPE_BF16>, attend<VFA_DTYPE_F16>, attend<VFA_DTYPE_F32>},
};

} // namespace vfa::cpu
