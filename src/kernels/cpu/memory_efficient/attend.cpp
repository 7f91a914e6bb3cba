// Online softmax in portable C++: one row at a time, keys in chunks, a running maximum, sum and
// accumulator (Milakov and Gimelshein 2018). Extra memory a row: O(head_dim) and one chunk of
// scores.
#include <cmath>
#include <limits>

#include "core/dtype.hpp"
#include "kernels/cpu/dispatch.hpp"

namespace vfa::cpu {

namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// Keys in a chunk. Within a chunk sums are short, and chunks are then added up: rounding errors
// grow with chunk + num_keys / chunk instead of num_keys.
constexpr int kChunk = 128;

// exp(x) for x <= 0 that is 0 only where it is 0 in double, too: a weight of 0 would turn an
// infinite value into NaN. The floor is the smallest float; in a sum it changes nothing.
float exp_floored(float x) {
    const float y = std::exp(x);
    return y == 0 && x > -745.0f ? std::numeric_limits<float>::denorm_min() : y;
}

struct RunningSoftmax {
    float max, sum;
    float o[256];
};

template <vfa_dtype D>
float dot(const typename Element<D>::Type *a, const typename Element<D>::Type *b, int32_t n) {
    float lanes[8] = {}; // independent sums: shorter chains, and the compiler can use vectors
    int32_t x = 0;
    for (; x + 8 <= n; x += 8)
        for (int32_t y = 0; y < 8; y++)
            lanes[y] += Element<D>::load(a[x + y]) * Element<D>::load(b[x + y]);
    for (; x < n; x++) lanes[x & 7] += Element<D>::load(a[x]) * Element<D>::load(b[x]);
    return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) +
           ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

// Adds keys [begin, end), at most kChunk of them, to the state of row (i, head).
template <vfa_dtype D>
void add_chunk(const AttendArgs &args, const typename Element<D>::Type *q, int64_t i, int64_t head,
               int64_t begin, int64_t end, RunningSoftmax &state) {
    using T = typename Element<D>::Type;
    float scores[kChunk];
    float max = state.max;
    for (int64_t j = begin; j < end; j++) {
        const T *k = static_cast<const T *>(args.k) + j * args.k_token_stride;
        float s = args.scale * dot<D>(q, k, args.head_dim);
        if (args.softcap > 0) s = args.softcap * std::tanh(s / args.softcap);
        if (args.alibi_slopes)
            s -= args.alibi_slopes[head] * std::fabs((float)(i + args.alibi_offset - j));
        scores[j - begin] = s;
        if (s > max) max = s; // a NaN stays out of the maximum and shows in the sum
    }
    const float reference = max == kMinusInfinity ? 0 : max; // -infinity - -infinity would be NaN
    const float rescale = exp_floored(state.max - reference);

    float sum = 0;
    float o[256] = {};
    for (int64_t j = begin; j < end; j++) {
        const T *v = static_cast<const T *>(args.v) + j * args.v_token_stride;
        const float p = exp_floored(scores[j - begin] - reference);
        sum += p;
        for (int32_t x = 0; x < args.head_dim_v; x++) o[x] += p * Element<D>::load(v[x]);
    }
    state.max = max;
    state.sum = state.sum * rescale + sum;
    for (int32_t x = 0; x < args.head_dim_v; x++) state.o[x] = state.o[x] * rescale + o[x];
}

template <class Out, class Store>
void write_row(Out *to, const RunningSoftmax &state, int32_t head_dim_v, Store store) {
    for (int32_t x = 0; x < head_dim_v; x++)
        to[x] = store(state.sum == 0 ? 0.0f : state.o[x] / state.sum);
}

template <vfa_dtype D> void attend_row(const AttendArgs &args, int64_t row) {
    using T = typename Element<D>::Type;
    const int64_t i = row / args.group, head = row % args.group;
    const int64_t first = first_key(args.visible, i), end = end_key(args.visible, i);
    const T *q =
        static_cast<const T *>(args.q) + i * args.q_token_stride + head * args.q_head_stride;

    RunningSoftmax state = {};
    state.max = args.sinks ? args.sinks[head] : kMinusInfinity; // a sink is one term seen already
    state.sum = state.max == kMinusInfinity ? 0.0f : 1.0f;
    for (int64_t j = first; j < end; j += kChunk)
        add_chunk<D>(args, q, i, head, j, std::min(end, j + kChunk), state);

    const int64_t at = i * args.o_token_stride + head * args.o_head_stride;
    if (args.o_f32)
        write_row(static_cast<float *>(args.o) + at, state, args.head_dim_v,
                  Element<VFA_DTYPE_F32>::store);
    else
        write_row(static_cast<T *>(args.o) + at, state, args.head_dim_v, Element<D>::store);
    if (args.lse)
        args.lse[i * args.lse_token_stride + head * args.lse_head_stride] =
            state.sum == 0 ? kMinusInfinity : state.max + std::log(state.sum);
}

template <vfa_dtype D> void attend(const AttendArgs &args) noexcept {
    for (int64_t row = args.row_begin; row < args.row_end; row++) attend_row<D>(args, row);
}

} // namespace

const Kernels memory_efficient_kernels = {
    "memory_efficient",
    [](const Shape &) -> int64_t { return 64; }, // any number will do: rows share nothing
    [](const Shape &) -> size_t { return 0; },
    {attend<VFA_DTYPE_BF16>, attend<VFA_DTYPE_F16>, attend<VFA_DTYPE_F32>},
};

} // namespace vfa::cpu
