// attend.hpp - the tiled kernel, written once over the vectors V of an instruction set.
//
// Rows (query, head of the group) are cut into tiles of up to 3 vectors of rows. Keys come in blocks.
// For each block and tile:
//   scores   S^T[key][row] = K Q^T: rows in the lanes, the K element broadcast. So the softmax (maximum,
//            sum, rescale) is elementwise; nothing is ever reduced across lanes.
//   weights  P = 2^(S - max), in place. Q was multiplied by scale * log2(e) when it was packed.
//   values   O[row][dim] = O * alpha + P V: head dims in the lanes, the P element broadcast. So neither P
//            nor O is ever transposed.
// K and V are widened to float once a block, for all tiles of a call. (Dao et al. 2022; see
// kernels/cpu/README.md for the choice of shapes.)
//
// V provides: kWidth (lanes), F (vector of float, with + - * /), kUnit (vectors that one load of
// elements fills), kDims (vectors of head dims in a P V step), kRows (rows in a P V step), kKeys[n] (keys
// in a scores step for n vectors of rows; more would not fit the registers), and the functions used below.
//
// Included by the files of single instruction sets; everything is local to the including file.
#pragma once
#include <cfloat>
#include <cstring>

#include "core/dtype.hpp"
#include "kernels/cpu/kernel_table.hpp"
#include "kernels/cpu/tiled/vector_math.hpp"

namespace vfa::cpu {
namespace {

constexpr int kBlockKeys = 96;  // divides by 4, 6, 8 and 12, the scores steps; K and V of it fit L2
constexpr int kTileVectors = 3; // vectors of rows in a tile
constexpr int kMaxTiles = 16;   // tiles that share a widened block

// Q and O of a call's tiles should stay in L2 beside the block: fewer tiles for larger heads.
static inline int tiles_per_call(int padded_dim) {
    return bounded(1024 / padded_dim, 1, kMaxTiles);
}

static inline int round_up(int value, int multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

// Scratch memory of a call. All arrays start at a multiple of 64 bytes.
template <class V> struct Scratch {
    static constexpr int kTileRows = kTileVectors * V::kWidth;
    static constexpr int kPad = V::kUnit * V::kWidth; // head dims are padded with zeros to this

    int qk_dim, v_dim; // padded head_dim and head_dim_v
    int tiles;
    float *k;         // [key][qk_dim]
    float *v;         // [dim chunk][key][dim of the chunk]
    float *q;         // [tile][qk_dim][kTileRows]
    float *o;         // [tile][kTileRows][v_dim]
    float *s;         // [key][kTileRows]: logits, then weights
    float *max, *sum; // [tile][kTileRows]
    float *block_max; // [kTileRows], as the rest below: of the tile at hand
    float *alpha;
    int32_t *first, *end; // visible keys, relative to the block
    float *slope, *position;
    size_t bytes = 0; // of all of them

    // memory may be null: then only the sizes mean something.
    Scratch(void *memory, int head_dim, int head_dim_v)
        : qk_dim(round_up(head_dim, kPad)), v_dim(round_up(head_dim_v, kPad)),
          tiles(tiles_per_call(larger(qk_dim, v_dim))), memory_(static_cast<char *>(memory)) {
        const int rows = tiles * kTileRows;
        k = take<float>(kBlockKeys * qk_dim);
        v = take<float>(kBlockKeys * v_dim);
        q = take<float>(rows * qk_dim);
        o = take<float>(rows * v_dim);
        s = take<float>(kBlockKeys * kTileRows);
        max = take<float>(rows);
        sum = take<float>(rows);
        block_max = take<float>(kTileRows);
        alpha = take<float>(kTileRows);
        first = take<int32_t>(kTileRows);
        end = take<int32_t>(kTileRows);
        slope = take<float>(kTileRows);
        position = take<float>(kTileRows);
    }

private:
    template <class T> T *take(int count) {
        T *array = memory_ ? reinterpret_cast<T *>(memory_ + bytes) : nullptr;
        bytes += ((size_t)count * sizeof(T) + 63) / 64 * 64;
        return array;
    }
    char *memory_;
};

// ------------------------------------------------------------------------------------- scores --

// Logits of kKeys keys and kVectors vectors of rows: stored, and folded into the rows' block maximum.
// q [qk_dim][kTileRows], k [kKeys][qk_dim], s [kKeys][kTileRows]. With mask, rows outside [first, end) of
// a key get -infinity.
template <class V, int kVectors, int kKeys, bool mask>
VFA_INLINE void score_step(const float *q, const float *k, int qk_dim, float *s, float *block_max,
                           int key, const int32_t *first, const int32_t *end) {
    constexpr int kTileRows = Scratch<V>::kTileRows;
    typename V::F sums[kKeys][kVectors];
#pragma GCC unroll 16
    for (int i = 0; i < kKeys; i++)
#pragma GCC unroll 4
        for (int n = 0; n < kVectors; n++) sums[i][n] = V::set1(0.0f);

    const float *rows[kKeys];
#pragma GCC unroll 16
    for (int i = 0; i < kKeys; i++) rows[i] = k + (ptrdiff_t)i * qk_dim;

#pragma GCC unroll 1
    for (ptrdiff_t x = 0; x < qk_dim; x += 4) // qk_dim is a multiple of kPad >= 4
#pragma GCC unroll 4
        for (int y = 0; y < 4; y++) {
            typename V::F columns[kVectors];
#pragma GCC unroll 4
            for (int n = 0; n < kVectors; n++)
                columns[n] = V::load(q + (x + y) * kTileRows + n * V::kWidth);
#pragma GCC unroll 16
            for (int i = 0; i < kKeys; i++) {
                const typename V::F element = V::broadcast(rows[i] + x + y);
#pragma GCC unroll 4
                for (int n = 0; n < kVectors; n++)
                    sums[i][n] = V::fma(element, columns[n], sums[i][n]);
            }
        }

    typename V::F max[kVectors];
#pragma GCC unroll 4
    for (int n = 0; n < kVectors; n++) max[n] = V::load(block_max + n * V::kWidth);
#pragma GCC unroll 16
    for (int i = 0; i < kKeys; i++)
#pragma GCC unroll 4
        for (int n = 0; n < kVectors; n++) {
            typename V::F logit = sums[i][n];
            if constexpr (mask)
                logit = V::keep_between(logit, key + i, first + n * V::kWidth, end + n * V::kWidth,
                                        V::set1(-kInfinity));
            V::store(s + i * kTileRows + n * V::kWidth, logit);
            max[n] =
                V::max(logit, max[n]); // a NaN logit stays out of the maximum, and shows in the sum
        }
#pragma GCC unroll 4
    for (int n = 0; n < kVectors; n++) V::store(block_max + n * V::kWidth, max[n]);
}

// A step of `keys` keys: the function for each count, made at compile time.
template <class V, int kVectors, bool mask, int kKeys = V::kKeys[kVectors]>
VFA_INLINE void score_keys(int keys, const float *q, const float *k, int qk_dim, float *s,
                           float *block_max, int key, const int32_t *first, const int32_t *end) {
    if (keys == kKeys)
        score_step<V, kVectors, kKeys, mask>(q, k, qk_dim, s, block_max, key, first, end);
    else if constexpr (kKeys > 1)
        score_keys<V, kVectors, mask, kKeys - 1>(keys, q, k, qk_dim, s, block_max, key, first, end);
}

// Keys [begin, end_key) of the block; pointers lead to its key 0.
template <class V, int kVectors, bool mask>
__attribute__((noinline)) void score_range(int begin, int end_key, const float *q, const float *k,
                                           int qk_dim, float *s, float *block_max,
                                           const int32_t *first, const int32_t *end) {
    constexpr int kStep = V::kKeys[kVectors];
    while (begin < end_key) {
        const int left = end_key - begin;
        int keys = smaller(kStep, left);
        if (left > kStep && left < 2 * kStep) keys = (left + 1) / 2; // two even steps for the tail
        score_keys<V, kVectors, mask>(keys, q, k + (ptrdiff_t)begin * qk_dim, qk_dim,
                                      s + begin * Scratch<V>::kTileRows, block_max, begin, first,
                                      end);
        begin += keys;
    }
}

template <class V, bool mask>
VFA_INLINE void score(int vectors, int begin, int end_key, const float *q, const float *k,
                      int qk_dim, float *s, float *block_max, const int32_t *first,
                      const int32_t *end) {
    if (vectors == 3)
        score_range<V, 3, mask>(begin, end_key, q, k, qk_dim, s, block_max, first, end);
    else if (vectors == 2)
        score_range<V, 2, mask>(begin, end_key, q, k, qk_dim, s, block_max, first, end);
    else
        score_range<V, 1, mask>(begin, end_key, q, k, qk_dim, s, block_max, first, end);
}

// ------------------------------------------------------------------------------------- values --

// O = O * alpha + P V for kRows rows, kDims vectors of head dims, and `keys` keys.
// p [keys][kTileRows], v [keys][kDims * kWidth], o [kRows][v_dim]. fresh: O starts at 0.
template <class V, int kRows, int kDims>
VFA_INLINE void value_step(const float *p, int keys, const float *v, float *o, int v_dim,
                           const float *alpha, bool fresh) {
    typename V::F sums[kRows][kDims];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; r++)
#pragma GCC unroll 4
        for (int n = 0; n < kDims; n++)
            sums[r][n] =
                fresh ? V::set1(0.0f)
                      : V::broadcast(alpha + r) * V::load(o + (ptrdiff_t)r * v_dim + n * V::kWidth);
#pragma GCC unroll 2
    for (int key = 0; key < keys; key++) {
        typename V::F dims[kDims];
#pragma GCC unroll 4
        for (int n = 0; n < kDims; n++) dims[n] = V::load(v + n * V::kWidth);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; r++) {
            const typename V::F weight = V::broadcast(p + r);
#pragma GCC unroll 4
            for (int n = 0; n < kDims; n++) sums[r][n] = V::fma(weight, dims[n], sums[r][n]);
        }
        v += kDims * V::kWidth;
        p += Scratch<V>::kTileRows;
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; r++)
#pragma GCC unroll 4
        for (int n = 0; n < kDims; n++)
            V::store(o + (ptrdiff_t)r * v_dim + n * V::kWidth, sums[r][n]);
}

template <class V, int kDims, int kRows = V::kRows>
VFA_INLINE void value_rows(int rows, const float *p, int keys, const float *v, float *o, int v_dim,
                           const float *alpha, bool fresh) {
    if (rows == kRows)
        value_step<V, kRows, kDims>(p, keys, v, o, v_dim, alpha, fresh);
    else if constexpr (kRows > 1)
        value_rows<V, kDims, kRows - 1>(rows, p, keys, v, o, v_dim, alpha, fresh);
}

// One function a chunk width; few callers, large bodies.
template <class V, int kDims = V::kDims>
VFA_INLINE void value_chunk(int dims, int rows, const float *p, int keys, const float *v, float *o,
                            int v_dim, const float *alpha, bool fresh) {
    if (dims == kDims)
        value_rows<V, kDims>(rows, p, keys, v, o, v_dim, alpha, fresh);
    else if constexpr (kDims > 1)
        value_chunk<V, kDims - 1>(dims, rows, p, keys, v, o, v_dim, alpha, fresh);
}

// -------------------------------------------------------------------------------------- weights --

// P = 2^(S - max) of one vector of rows over the keys [begin, end); returns the sum. s leads to the
// vector's column at key 0. Four sums, so that additions need not wait for each other.
template <class V, bool precise, bool floored>
VFA_INLINE typename V::F weigh_column(float *s, int begin, int end, typename V::F max) {
    constexpr int kStep = Scratch<V>::kTileRows;
    typename V::F sums[4] = {V::set1(0.0f), V::set1(0.0f), V::set1(0.0f), V::set1(0.0f)};
    const auto weigh = [&](int key, typename V::F &sum) __attribute__((always_inline)) {
        const typename V::F x = V::load(s + key * kStep) - max;
        const typename V::F p =
            floored ? exp2_floored<V, precise>(x) : exp2_nonpositive<V, precise>(x);
        V::store(s + key * kStep, p);
        sum = sum + p;
    };
    int key = begin;
    for (; key + 4 <= end; key += 4)
#pragma GCC unroll 4
        for (int n = 0; n < 4; n++) weigh(key + n, sums[n]);
    for (; key < end; key++) weigh(key, sums[0]);
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// ---------------------------------------------------------------------------------------- tiles --

struct Tile {
    int64_t row; // first row
    int rows;
    int vectors;       // of rows; lanes beyond the last row repeat it
    bool fresh = true; // no block has been added to its O
};

// Cuts a call's rows into as few tiles as possible, as even as possible: 33 rows of 8 lanes are tiles of
// 3 + 2 vectors, not 3 + 3. Returns the number of tiles.
template <class V> int cut_into_tiles(int64_t row_begin, int64_t row_end, Tile *tiles) {
    int vectors_left = (int)((row_end - row_begin + V::kWidth - 1) / V::kWidth);
    const int count = (vectors_left + kTileVectors - 1) / kTileVectors;
    for (int t = 0; t < count; t++) {
        const int vectors = (vectors_left + count - t - 1) / (count - t);
        const int64_t row_limit = smaller<int64_t>(row_begin + vectors * V::kWidth, row_end);
        tiles[t] = Tile{row_begin, (int)(row_limit - row_begin), vectors};
        row_begin = row_limit;
        vectors_left -= vectors;
    }
    return count;
}

// One call's work, for elements of dtype D.
template <class V, vfa_dtype D> class Attend {
    using F = typename V::F;
    using T = typename Element<D>::Type;
    static constexpr int W = V::kWidth;
    static constexpr int kTileRows = Scratch<V>::kTileRows;
    static constexpr int kPad = Scratch<V>::kPad;
    static constexpr int kChunkDims = V::kDims * W;
    static constexpr bool kPrecise =
        D == VFA_DTYPE_F32; // 16-bit outputs cannot show the difference

public:
    explicit Attend(const AttendArgs &args)
        : args_(args), scratch_(args.scratch, args.head_dim, args.head_dim_v),
          adjusts_(args.softcap > 0 || args.alibi_slopes),
          num_tiles_(cut_into_tiles<V>(args.row_begin, args.row_end, tiles_)) {}

    void run() {
        for (int t = 0; t < num_tiles_; t++) start_tile(t);
        const int64_t first = first_key(args_.visible, query_of(args_.row_begin));
        const int64_t end = end_key(args_.visible, query_of(args_.row_end - 1));
        for (int64_t key = first; key < end; key += kBlockKeys) {
            const int keys = (int)smaller<int64_t>(kBlockKeys, end - key);
            widen_keys(key, keys);
            const bool finite = widen_values(key, keys);
            for (int t = 0; t < num_tiles_; t++) add_block(t, key, keys, finite);
        }
        for (int t = 0; t < num_tiles_; t++) finish_tile(t);
    }

private:
    int64_t query_of(int64_t row) const { return args_.group == 1 ? row : row / args_.group; }
    int64_t head_of(int64_t row) const { return args_.group == 1 ? 0 : row % args_.group; }

    const T *q_row(int64_t row) const {
        return static_cast<const T *>(args_.q) + query_of(row) * args_.q_token_stride +
               head_of(row) * args_.q_head_stride;
    }

    // ---- packing

    // Elements [x, x + kPad) of a row of dim elements as floats; zeros beyond the row.
    static void widen(const T *row, int x, int dim, F *to) {
        if (x + kPad <= dim) {
            V::template load_elements<D>(row + x, to);
        } else {
            alignas(64) T padded[kPad] = {};
            std::memcpy(padded, row + x, (size_t)(dim - x) * sizeof(T));
            V::template load_elements<D>(padded, to);
        }
    }

    // Q of a tile, transposed to [dim][row] and scaled; the running maximum and sum at their start.
    void start_tile(int t) {
        const Tile &tile = tiles_[t];
        // With a softcap the logit is first scale * dot / softcap.
        const F scale =
            V::set1(args_.softcap > 0 ? args_.scale / args_.softcap : args_.scale * kLog2e);
        float *q = scratch_.q + (ptrdiff_t)t * scratch_.qk_dim * kTileRows;
        for (int n = 0; n < tile.vectors; n++) {
            const T *rows[W];
            for (int lane = 0; lane < W; lane++)
                rows[lane] = q_row(tile.row + smaller(n * W + lane, tile.rows - 1));
            for (int x = 0; x < args_.head_dim; x += kPad) {
                F in[W][V::kUnit];
                for (int lane = 0; lane < W; lane++) widen(rows[lane], x, args_.head_dim, in[lane]);
                for (int unit = 0; unit < V::kUnit; unit++) {
                    F square[W];
                    for (int lane = 0; lane < W; lane++) square[lane] = in[lane][unit];
                    V::transpose(square);
                    for (int y = 0; y < W; y++)
                        V::store(q + (x + unit * W + y) * kTileRows + n * W, square[y] * scale);
                }
            }
        }
        float *max = scratch_.max + t * kTileRows, *sum = scratch_.sum + t * kTileRows;
        for (int r = 0; r < kTileRows; r++) {
            // A sink is one term seen already: its logit as the maximum, weight 1, no value.
            const float sink = args_.sinks
                                   ? args_.sinks[head_of(tile.row + smaller(r, tile.rows - 1))]
                                   : -kInfinity;
            const bool none = sink == -kInfinity;
            max[r] = none ? sink : bounded(sink * kLog2e, -FLT_MAX, FLT_MAX);
            sum[r] = none ? 0.0f : 1.0f;
        }
    }

    void widen_keys(int64_t key, int keys) {
        const T *row = static_cast<const T *>(args_.k) + key * args_.k_token_stride;
        float *to = scratch_.k;
        for (int j = 0; j < keys; j++, row += args_.k_token_stride, to += scratch_.qk_dim)
            for (int x = 0; x < args_.head_dim; x += kPad) {
                F elements[V::kUnit];
                widen(row, x, args_.head_dim, elements);
                for (int unit = 0; unit < V::kUnit; unit++)
                    V::store(to + x + unit * W, elements[unit]);
            }
    }

    // Returns whether all values are finite.
    bool widen_values(int64_t key, int keys) {
        const T *row = static_cast<const T *>(args_.v) + key * args_.v_token_stride;
        F poison = V::set1(0.0f); // becomes NaN with the first value that is not finite
        for (int j = 0; j < keys; j++, row += args_.v_token_stride)
            for (int x = 0; x < args_.head_dim_v; x += kPad) {
                F elements[V::kUnit];
                widen(row, x, args_.head_dim_v, elements);
                for (int unit = 0; unit < V::kUnit; unit++) {
                    V::store(value_at(j, x + unit * W), elements[unit]);
                    poison = V::fma(elements[unit], V::set1(0.0f), poison);
                }
            }
        return !V::any_nan(poison);
    }

    int chunk_dims(int x) const { return smaller(kChunkDims, scratch_.v_dim - x); }

    // Value of key j (of the block) and dim x in scratch_.v: [chunk][key][dim of the chunk].
    float *value_at(int j, int x) const {
        const int chunk = x / kChunkDims * kChunkDims;
        return scratch_.v + (ptrdiff_t)chunk * kBlockKeys + (ptrdiff_t)j * chunk_dims(chunk) +
               (x - chunk);
    }

    // ---- a block of keys for one tile

    int relative(int64_t key, int64_t block, int keys) const {
        return (int)bounded<int64_t>(key - block, 0, keys);
    }

    void add_block(int t, int64_t block, int keys, bool finite) {
        Tile &tile = tiles_[t];
        const int64_t top = query_of(tile.row), bottom = query_of(tile.row + tile.rows - 1);
        // Ends of the visible range never fall from row to row, so the tile as a whole sees
        // [begin, end), and all of its rows see [full_begin, full_end).
        const int begin = relative(first_key(args_.visible, top), block, keys);
        const int end = relative(end_key(args_.visible, bottom), block, keys);
        if (begin >= end) return;
        const int full_begin =
            bounded(relative(first_key(args_.visible, bottom), block, keys), begin, end);
        const int full_end =
            bounded(relative(end_key(args_.visible, top), block, keys), full_begin, end);
        if (full_begin > begin || full_end < end || !finite || adjusts_)
            find_limits(tile, block, keys);

        const float *q = scratch_.q + (ptrdiff_t)t * scratch_.qk_dim * kTileRows;
        int vector_end[kTileVectors]; // keys that some row of the vector sees
        for (int n = 0; n < tile.vectors; n++) {
            vector_end[n] = full_end < end ? scratch_.end[n * W + W - 1] : end;
            vector_end[n] = larger(vector_end[n], begin);
        }
        for (int n = 0; n < tile.vectors; n++)
            V::store(scratch_.block_max + n * W, V::set1(-kInfinity));
        if (adjusts_) {
            score_unmasked(tile.vectors, begin, end, q);
            adjust(tile, block, begin, end);
            for (int n = 0; n < tile.vectors; n++) vector_end[n] = end;
        } else {
            score_masked(tile.vectors, 0, begin, full_begin, q);
            score_unmasked(tile.vectors, full_begin, full_end, q);
            int from = full_end; // a staircase: the first vectors see fewer keys
            for (int n = 0; n < tile.vectors; n++) {
                score_masked(tile.vectors, n, from, vector_end[n], q);
                from = larger(from, vector_end[n]);
            }
        }

        for (int n = 0; n < tile.vectors; n++) weigh(t, n, begin, vector_end[n], end, finite);
        if (finite)
            add_values(t, begin, end, full_begin > begin || full_end < end);
        else
            add_values_exactly(t);
        tile.fresh = false;
    }

    // Visible keys of each lane, relative to the block.
    void find_limits(const Tile &tile, int64_t block, int keys) {
        for (int r = 0; r < tile.vectors * W; r++) {
            const int64_t i = query_of(tile.row + smaller(r, tile.rows - 1));
            scratch_.first[r] = relative(first_key(args_.visible, i), block, keys);
            scratch_.end[r] = relative(end_key(args_.visible, i), block, keys);
        }
    }

    void score_unmasked(int vectors, int begin, int end, const float *q) {
        score<V, false>(vectors, begin, end, q, scratch_.k, scratch_.qk_dim, scratch_.s,
                        scratch_.block_max, nullptr, nullptr);
    }

    // Vectors from n on.
    void score_masked(int vectors, int n, int begin, int end, const float *q) {
        if (begin < end)
            score<V, true>(vectors - n, begin, end, q + n * W, scratch_.k, scratch_.qk_dim,
                           scratch_.s + n * W, scratch_.block_max + n * W, scratch_.first + n * W,
                           scratch_.end + n * W);
    }

    // Softcap, ALiBi and the mask over raw logits of the keys [begin, end).
    void adjust(const Tile &tile, int64_t block, int begin, int end) {
        const F cap = V::set1(args_.softcap * kLog2e);
        for (int r = 0; r < tile.vectors * W; r++) {
            const int64_t row = tile.row + smaller(r, tile.rows - 1);
            scratch_.slope[r] =
                args_.alibi_slopes ? args_.alibi_slopes[head_of(row)] * kLog2e : 0.0f;
            // Distances up to 2^24 are exact in float, beyond that as rounded as the product.
            scratch_.position[r] = (float)(query_of(row) + args_.alibi_offset - block);
        }
        for (int n = 0; n < tile.vectors; n++) {
            const F slope = V::load(scratch_.slope + n * W);
            const F position = V::load(scratch_.position + n * W);
            F max = V::set1(-kInfinity);
            for (int key = begin; key < end; key++) {
                float *at = scratch_.s + key * kTileRows + n * W;
                F logit = V::load(at);
                if (args_.softcap > 0) logit = tanh_any<V>(logit) * cap;
                if (args_.alibi_slopes)
                    logit = logit - slope * V::abs(position - V::set1((float)key));
                logit = V::keep_between(logit, key, scratch_.first + n * W, scratch_.end + n * W,
                                        V::set1(-kInfinity));
                V::store(at, logit);
                max = V::max(logit, max);
            }
            V::store(scratch_.block_max + n * W, max);
        }
    }

    // Weights of one vector of rows: logits of [begin, vector_end) -> P, zeros up to end; the running
    // maximum and sum move on, and alpha is the factor for what was accumulated before.
    void weigh(int t, int n, int begin, int vector_end, int end, bool finite) {
        float *max_at = scratch_.max + t * kTileRows + n * W;
        float *sum_at = scratch_.sum + t * kTileRows + n * W;
        float *column = scratch_.s + n * W;
        const F old_max = V::load(max_at);
        const F max = V::max(V::load(scratch_.block_max + n * W), old_max);
        // -infinity - -infinity would be NaN: rows that saw nothing yet are measured against 0.
        const F reference = V::replace_minus_infinity(max);
        const F alpha = exp2_floored<V, kPrecise>(old_max - reference);
        const F sum = finite
                          ? weigh_column<V, kPrecise, false>(column, begin, vector_end, reference)
                          : weigh_column<V, kPrecise, true>(column, begin, vector_end, reference);
        V::store(max_at, max);
        V::store(scratch_.alpha + n * W, alpha);
        V::store(sum_at, V::fma(V::load(sum_at), alpha, sum));
        for (int key = vector_end; key < end; key++)
            V::store(column + key * kTileRows, V::set1(0.0f));
    }

    // O = O * alpha + P V. Rows in even groups; with a mask each group stops at its last visible key.
    void add_values(int t, int begin, int end, bool masked) {
        const Tile &tile = tiles_[t];
        const int groups = (tile.rows + V::kRows - 1) / V::kRows;
        for (int x = 0; x < scratch_.v_dim; x += kChunkDims) {
            int r = 0;
            for (int g = 0; g < groups; g++) {
                const int rows = (tile.rows - r + groups - g - 1) / (groups - g);
                const int from = masked ? larger(begin, scratch_.first[r]) : begin;
                const int to = masked ? smaller(end, scratch_.end[r + rows - 1]) : end;
                add_value_rows(t, r, rows, x, from, larger(from, to));
                r += rows;
            }
        }
    }

    // For blocks with infinities or NaN among the values: each row by itself over the keys that it sees,
    // since a weight of 0 for a key that it does not see would still give 0 * NaN.
    void add_values_exactly(int t) {
        for (int x = 0; x < scratch_.v_dim; x += kChunkDims)
            for (int r = 0; r < tiles_[t].rows; r++)
                add_value_rows(t, r, 1, x, scratch_.first[r],
                               larger(scratch_.first[r], scratch_.end[r]));
    }

    // Rows [r, r + rows), dims from x to the end of their chunk, keys [from, to).
    void add_value_rows(int t, int r, int rows, int x, int from, int to) {
        value_chunk<V>(chunk_dims(x) / W, rows, scratch_.s + from * kTileRows + r, to - from,
                       value_at(from, x),
                       scratch_.o + ((ptrdiff_t)t * kTileRows + r) * scratch_.v_dim + x,
                       scratch_.v_dim, scratch_.alpha + r, tiles_[t].fresh);
    }

    // ---- output

    void finish_tile(int t) {
        const Tile &tile = tiles_[t];
        const float *sum = scratch_.sum + t * kTileRows;
        alignas(64) float inverse[kTileRows], lse[kTileRows];
        for (int n = 0; n < tile.vectors; n++) {
            const F sums = V::load(sum + n * W);
            V::store(inverse + n * W, V::set1(1.0f) / sums);
            if (args_.lse)
                V::store(lse + n * W,
                         (V::load(scratch_.max + t * kTileRows + n * W) + log2_positive<V>(sums)) *
                             V::set1(kLn2));
        }
        for (int r = 0; r < tile.rows; r++) {
            const int64_t i = query_of(tile.row + r), head = head_of(tile.row + r);
            const bool empty = sum[r] == 0;
            const float *o = empty || tile.fresh
                                 ? nullptr
                                 : scratch_.o + ((ptrdiff_t)t * kTileRows + r) * scratch_.v_dim;
            const int64_t at = i * args_.o_token_stride + head * args_.o_head_stride;
            if (args_.o_f32)
                write_row<VFA_DTYPE_F32>(static_cast<float *>(args_.o) + at, o, inverse[r]);
            else
                write_row<D>(static_cast<T *>(args_.o) + at, o, inverse[r]);
            if (args_.lse)
                args_.lse[i * args_.lse_token_stride + head * args_.lse_head_stride] =
                    empty ? -kInfinity : lse[r];
        }
    }

    // o * inverse in the order of memory; o null: zeros. O holds dims in the order that load_elements<D>
    // left them in, so it is D that puts them back.
    template <vfa_dtype Out>
    void write_row(typename Element<Out>::Type *to, const float *o, float inverse) const {
        const int dim = args_.head_dim_v;
        if (!o) {
            std::memset(to, 0, (size_t)dim * sizeof *to);
            return;
        }
        for (int x = 0; x < dim; x += kPad) {
            F elements[V::kUnit];
            for (int unit = 0; unit < V::kUnit; unit++)
                elements[unit] = V::load(o + x + unit * W) * V::set1(inverse);
            if (x + kPad <= dim) {
                V::template store_elements<D, Out>(to + x, elements);
            } else {
                alignas(64) typename Element<Out>::Type padded[kPad];
                V::template store_elements<D, Out>(padded, elements);
                std::memcpy(to + x, padded, (size_t)(dim - x) * sizeof *to);
            }
        }
    }

    const AttendArgs &args_;
    Scratch<V> scratch_;
    const bool adjusts_;
    Tile tiles_[kMaxTiles];
    const int num_tiles_;
};

template <class V, vfa_dtype D> void attend(const AttendArgs &args) noexcept {
    Attend<V, D>(args).run();
}

template <class V> int64_t rows_per_call(const Shape &shape) {
    const Scratch<V> layout(nullptr, shape.head_dim, shape.head_dim_v);
    return (int64_t)layout.tiles * Scratch<V>::kTileRows;
}

template <class V> size_t scratch_bytes(const Shape &shape) {
    return Scratch<V>(nullptr, shape.head_dim, shape.head_dim_v).bytes;
}

template <class V> constexpr Kernels tiled_kernels(const char *name) {
    return {name,
            rows_per_call<V>,
            scratch_bytes<V>,
            {attend<V, VFA_DTYPE_BF16>, attend<V, VFA_DTYPE_F16>, attend<V, VFA_DTYPE_F32>}};
}

} // namespace
} // namespace vfa::cpu
