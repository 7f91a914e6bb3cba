// attend.hpp - the tiled kernel, written once over the vectors V of an instruction set.
//
// Rows (query, head of the group) are cut into tiles of up to 3 vectors of rows. Keys come in
// blocks. For each block and tile:
//
//   scores   S^T[key][row] = K Q^T, rows in the lanes, the K element broadcast. So the softmax
//            (maximum, sum, rescale) is elementwise: nothing is ever reduced across lanes.
//   weights  P = 2^(S - max), in place.
//   values   O[row][dim] = O * alpha + P V, head dims in the lanes, the P element broadcast. So
//            neither P nor O is ever transposed.
//
// K and V of a block are brought into their packed form once, for all tiles of a call. (Online
// softmax: Milakov and Gimelshein 2018; tiles: Dao et al. 2022. Choice of shapes, numerics:
// docs/architecture.md.)
//
// A packed lane of 32 bits holds V::kPack elements that are multiplied and added at once by V::dot:
// one float, or two bf16 (two head dims of Q and K, two keys of P and V).
//
// V provides kWidth (lanes of a vector), F (vector of float with + - * /), kPack, kUnit (vectors
// that one load of elements fills), kDims (vectors of head dims in a step of values), kRows (rows
// in a step of values), kKeys[n] (keys in a step of scores for n vectors of rows), and the
// functions used below; portable.cpp is the simplest.
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

// Parts of a call are functions of their own: their loops get all registers, and profiles names.
#define VFA_PHASE __attribute__((noinline))

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
    static constexpr int kPad = V::kUnit * V::kWidth; // lanes that one load of elements fills

    int qk_lanes; // packed lanes of a row of Q or K, padded with zeros to kPad
    int v_dim;    // head_dim_v, likewise
    int tiles;
    float *k;         // [key][qk_lanes], packed
    float *v;         // [dim chunk][key / kPack][dim of the chunk], packed
    float *q;         // [tile][qk_lanes][kTileRows], packed
    float *o;         // [tile][kTileRows][v_dim]
    float *s;         // [key][kTileRows]: logits, then weights
    float *p;         // [key / kPack][kTileRows]: weights, packed; the same as s for kPack 1
    float *max, *sum; // [tile][kTileRows]
    float *block_max; // [kTileRows], as the rest below: of the tile at hand
    float *alpha;
    int32_t *first, *end; // visible keys, relative to the block
    float *slope, *position;
    size_t bytes = 0; // of all of them

    // memory may be null: then only the sizes mean something.
    Scratch(void *memory, int head_dim, int head_dim_v)
        : qk_lanes(round_up((head_dim + V::kPack - 1) / V::kPack, kPad)),
          v_dim(round_up(head_dim_v, kPad)), tiles(tiles_per_call(larger(qk_lanes, v_dim))),
          memory_(static_cast<char *>(memory)) {
        const int rows = tiles * kTileRows;
        k = take<float>(kBlockKeys * qk_lanes);
        v = take<float>(kBlockKeys / V::kPack * v_dim);
        q = take<float>(rows * qk_lanes);
        o = take<float>(rows * v_dim);
        s = take<float>(kBlockKeys * kTileRows);
        p = V::kPack == 1 ? s : take<float>(kBlockKeys / V::kPack * kTileRows);
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

// Logits of a range of keys against the rows of a tile. Pointers lead to key 0 of the block and to
// the first of the vectors of rows.
struct ScoreArgs {
    const float *q; // [lane][kTileRows]
    const char *k;  // rows of lanes, k_step bytes apart
    ptrdiff_t k_step;
    int lanes;            // a multiple of 4
    float logit_scale;    // for V::kPack > 1; else q has it
    float *s;             // [key][kTileRows]
    float *block_max;     // [row]: takes up the maximum
    const int32_t *first; // [row]: with a mask, the keys that the row sees; others get -infinity
    const int32_t *end;
};

template <class V, int kVectors, int kKeys, bool mask>
VFA_INLINE void score_step(const ScoreArgs &args, int key) {
    constexpr int kTileRows = Scratch<V>::kTileRows;
    typename V::F sums[kKeys][kVectors];
#pragma GCC unroll 16
    for (int i = 0; i < kKeys; i++)
#pragma GCC unroll 4
        for (int n = 0; n < kVectors; n++) sums[i][n] = V::set1(0.0f);

    const float *rows[kKeys];
#pragma GCC unroll 16
    for (int i = 0; i < kKeys; i++)
        rows[i] = reinterpret_cast<const float *>(args.k + (key + i) * args.k_step);

    const float *q = args.q;
#pragma GCC unroll 1
    for (ptrdiff_t x = 0; x < args.lanes; x += 4)
#pragma GCC unroll 4
        for (int y = 0; y < 4; y++, q += kTileRows) {
            typename V::F columns[kVectors];
#pragma GCC unroll 4
            for (int n = 0; n < kVectors; n++) columns[n] = V::load(q + n * V::kWidth);
#pragma GCC unroll 16
            for (int i = 0; i < kKeys; i++) {
                const typename V::F element = V::broadcast(rows[i] + x + y);
#pragma GCC unroll 4
                for (int n = 0; n < kVectors; n++)
                    sums[i][n] = V::dot(element, columns[n], sums[i][n]);
            }
        }

    typename V::F max[kVectors];
    float *s = args.s + key * kTileRows;
#pragma GCC unroll 4
    for (int n = 0; n < kVectors; n++) max[n] = V::load(args.block_max + n * V::kWidth);
#pragma GCC unroll 16
    for (int i = 0; i < kKeys; i++)
#pragma GCC unroll 4
        for (int n = 0; n < kVectors; n++) {
            typename V::F logit = sums[i][n];
            if constexpr (V::kPack > 1) logit = logit * V::set1(args.logit_scale);
            if constexpr (mask)
                logit = V::keep_between(logit, key + i, args.first + n * V::kWidth,
                                        args.end + n * V::kWidth, V::set1(-kInfinity));
            V::store(s + i * kTileRows + n * V::kWidth, logit);
            // A NaN logit stays out of the maximum, and shows in the sum.
            max[n] = V::max(logit, max[n]);
        }
#pragma GCC unroll 4
    for (int n = 0; n < kVectors; n++) V::store(args.block_max + n * V::kWidth, max[n]);
}

// A step of `keys` keys: the function for each count, made at compile time.
template <class V, int kVectors, bool mask, int kKeys = V::kKeys[kVectors]>
VFA_INLINE void score_keys(const ScoreArgs &args, int key, int keys) {
    if (keys == kKeys)
        score_step<V, kVectors, kKeys, mask>(args, key);
    else if constexpr (kKeys > 1)
        score_keys<V, kVectors, mask, kKeys - 1>(args, key, keys);
}

// Keys [key, end) of the block.
template <class V, int kVectors, bool mask>
VFA_PHASE void score_range(const ScoreArgs &args, int key, int end) {
    constexpr int kStep = V::kKeys[kVectors];
    while (key < end) {
        const int left = end - key;
        int keys = smaller(kStep, left);
        if (left > kStep && left < 2 * kStep) keys = (left + 1) / 2; // two even steps for the tail
        score_keys<V, kVectors, mask>(args, key, keys);
        key += keys;
    }
}

template <class V, bool mask>
VFA_INLINE void score(const ScoreArgs &args, int vectors, int key, int end) {
    if (vectors == 3)
        score_range<V, 3, mask>(args, key, end);
    else if (vectors == 2)
        score_range<V, 2, mask>(args, key, end);
    else
        score_range<V, 1, mask>(args, key, end);
}

// ------------------------------------------------------------------------------------- values --

// O = O * alpha + P V for some rows, some head dims and a range of keys. Pointers lead to the first
// of each.
struct ValueArgs {
    const float *p; // [keys / kPack][kTileRows]
    const char *v;  // rows of dims of the chunk, v_step bytes apart: packed, or elements in memory
    ptrdiff_t v_step;
    int steps; // keys / kPack
    float *o;  // [row][o_step]
    int o_step;
    const float *alpha; // [row]
    bool fresh;         // O starts at 0
};

// Vectors of packed values.
template <class V> struct PackedValues {
    template <int kDims> VFA_INLINE void load(const char *v, typename V::F (&dims)[kDims]) {
#pragma GCC unroll 4
        for (int n = 0; n < kDims; n++)
            dims[n] = V::load(reinterpret_cast<const float *>(v) + n * V::kWidth);
    }
};
// Vectors of elements of dtype D; whole units.
template <class V, vfa_dtype D> struct MemoryValues {
    template <int kDims> VFA_INLINE void load(const char *v, typename V::F (&dims)[kDims]) {
        const auto *elements = reinterpret_cast<const typename Element<D>::Type *>(v);
#pragma GCC unroll 4
        for (int n = 0; n < kDims; n += V::kUnit)
            V::template load_values<D>(elements + n * V::kWidth, dims + n);
    }
};

template <class V, class Values, int kRows, int kDims>
VFA_INLINE void value_step(const ValueArgs &args) {
    typename V::F sums[kRows][kDims];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; r++)
#pragma GCC unroll 4
        for (int n = 0; n < kDims; n++) sums[r][n] = V::set1(0.0f);
    const float *p = args.p;
    const char *v = args.v;
#pragma GCC unroll 2
    for (int step = 0; step < args.steps; step++) {
        typename V::F dims[kDims];
        Values::load(v, dims);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; r++) {
            const typename V::F weight = V::broadcast(p + r);
#pragma GCC unroll 4
            for (int n = 0; n < kDims; n++) sums[r][n] = V::dot(weight, dims[n], sums[r][n]);
        }
        v += args.v_step;
        p += Scratch<V>::kTileRows;
    }
    // The block is summed up by itself: rounding errors grow with the number of blocks, not of keys.
#pragma GCC unroll 8
    for (int r = 0; r < kRows; r++)
#pragma GCC unroll 4
        for (int n = 0; n < kDims; n++) {
            float *o = args.o + (ptrdiff_t)r * args.o_step + n * V::kWidth;
            V::store(o, args.fresh ? sums[r][n]
                                   : V::fma(V::broadcast(args.alpha + r), V::load(o), sums[r][n]));
        }
}

template <class V, class Values, int kDims, int kRows = V::kRows>
VFA_INLINE void value_rows(const ValueArgs &args, int rows) {
    if (rows == kRows)
        value_step<V, Values, kRows, kDims>(args);
    else if constexpr (kRows > 1)
        value_rows<V, Values, kDims, kRows - 1>(args, rows);
}

template <class V, class Values, int kDims = V::kDims>
VFA_INLINE void value_chunk(const ValueArgs &args, int rows, int dims) {
    if (dims == kDims)
        value_rows<V, Values, kDims>(args, rows);
    else if constexpr (kDims > V::kUnit)
        value_chunk<V, Values, kDims - V::kUnit>(args, rows, dims);
}

// -------------------------------------------------------------------------------------- weights --

// P = 2^(S - max) of one vector of rows over the keys [begin, end); returns the sum of P as float.
// s and p lead to the vector's column at key 0. begin is a multiple of kPack. Four sums, so that
// additions need not wait for each other. floored: for exact values, P stays as float in s.
template <class V, bool precise, bool floored>
VFA_INLINE typename V::F weigh_column(float *s, float *p, int begin, int end, typename V::F max) {
    constexpr int kStep = Scratch<V>::kTileRows;
    typename V::F sums[4] = {V::set1(0.0f), V::set1(0.0f), V::set1(0.0f), V::set1(0.0f)};
    const auto weigh = [&](int key, int n) __attribute__((always_inline)) {
        const typename V::F x = V::load(s + key * kStep) - max;
        const typename V::F weight =
            floored ? exp2_floored<V, precise>(x) : exp2_nonpositive<V, precise>(x);
        sums[n] = sums[n] + weight;
        if constexpr (V::kPack == 1 || floored) V::store(s + key * kStep, weight);
        return weight;
    };
    int key = begin;
    if constexpr (V::kPack == 1 || floored) {
        for (; key + 4 <= end; key += 4)
#pragma GCC unroll 4
            for (int n = 0; n < 4; n++) weigh(key + n, n);
        for (; key < end; key++) weigh(key, 0);
    } else {
        for (; key + 4 <= end; key += 4)
#pragma GCC unroll 2
            for (int n = 0; n < 4; n += 2) {
                const typename V::F even = weigh(key + n, n), odd = weigh(key + n + 1, n + 1);
                V::store(p + (key + n) / 2 * kStep, V::pair_weights(even, odd));
            }
        for (; key < end; key += 2) {
            const typename V::F even = weigh(key, 0);
            const typename V::F odd = key + 1 < end ? weigh(key + 1, 1) : V::set1(0.0f);
            V::store(p + key / 2 * kStep, V::pair_weights(even, odd));
        }
    }
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// ------------------------------------------------------------------------------------- prefetch --

// Memory that is wanted soon, asked for a few rows at a time between pieces of arithmetic. Rows of
// one head are far apart, so that the processor's own prefetcher does not see them coming.
class Prefetcher {
public:
    void clear() { count_ = stream_ = row_ = rows_ = 0; }
    void add(const void *first_row, ptrdiff_t step_bytes, int64_t rows, int64_t row_bytes) {
        if (rows <= 0) return;
        streams_[count_++] = {static_cast<const char *>(first_row), step_bytes, (int)rows,
                              (int)row_bytes};
        rows_ += (int)rows;
    }
    int rows() const { return rows_; }
    void issue(int rows) {
        for (; rows > 0 && stream_ < count_; rows--) {
            const Stream &s = streams_[stream_];
            const char *row = s.first_row + row_ * s.step;
            const char *line = row - ((uintptr_t)row & 63);
            for (; line < row + s.row_bytes; line += 64) __builtin_prefetch(line);
            if (++row_ == s.rows) {
                row_ = 0;
                stream_++;
            }
        }
    }

private:
    struct Stream {
        const char *first_row;
        ptrdiff_t step;
        int rows, row_bytes;
    };
    Stream streams_[4];
    int count_ = 0, stream_ = 0, row_ = 0, rows_ = 0;
};

// ---------------------------------------------------------------------------------------- tiles --

struct Tile {
    int64_t row; // first row
    int rows;
    int vectors;       // of rows; lanes beyond the last row repeat it
    bool fresh = true; // no block has been added to its O
};

// Cuts a call's rows into as few tiles as possible, as even as possible: 33 rows of 8 lanes are
// tiles of 3 + 2 vectors, not 3 + 3. Returns the number of tiles.
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

// Columns of kWidth rows of elements, by loading and transposing: columns[x] holds lane x of each.
template <class V, vfa_dtype D>
VFA_INLINE void transposed_columns(const typename Element<D>::Type *const *rows,
                                   typename V::F *columns) {
    typename V::F loaded[V::kWidth][V::kUnit];
    for (int lane = 0; lane < V::kWidth; lane++)
        V::template load_elements<D>(rows[lane], loaded[lane]);
    for (int unit = 0; unit < V::kUnit; unit++) {
        typename V::F square[V::kWidth];
        for (int lane = 0; lane < V::kWidth; lane++) square[lane] = loaded[lane][unit];
        V::transpose(square);
        for (int y = 0; y < V::kWidth; y++) columns[unit * V::kWidth + y] = square[y];
    }
}

// One call's work, for elements of dtype D.
template <class V, vfa_dtype D> class Attend {
    using F = typename V::F;
    using T = typename Element<D>::Type;
    static constexpr int W = V::kWidth;
    static constexpr int kTileRows = Scratch<V>::kTileRows;
    static constexpr int kPad = Scratch<V>::kPad;
    static constexpr int kPadElements = kPad * V::kPack;
    static constexpr int kChunkDims = V::kDims * W;
    static constexpr bool kPrecise =
        D == VFA_DTYPE_F32; // 16-bit outputs cannot show the difference
    // Whether rows of K in memory are packed lanes already.
    static constexpr bool kPackedInMemory = sizeof(T) * V::kPack == sizeof(float);
    static constexpr int kInPlaceTiles = 2;

public:
    explicit Attend(const AttendArgs &args)
        : args_(args), scratch_(args.scratch, args.head_dim, args.head_dim_v),
          adjusts_(args.softcap > 0 || args.alibi_slopes),
          // With a softcap the logit is first scale * dot / softcap.
          logit_scale_(args.softcap > 0 ? args.scale / args.softcap : args.scale * kLog2e),
          num_tiles_(cut_into_tiles<V>(args.row_begin, args.row_end, tiles_)) {}

    void run() {
        for (int t = 0; t < num_tiles_; t++) start_tile(t);
        const int64_t first = first_key(args_.visible, query_of(args_.row_begin));
        const int64_t end = end_key(args_.visible, query_of(args_.row_end - 1));
        for (int64_t key = first; key < end; key += kBlockKeys) {
            const int keys = (int)smaller<int64_t>(kBlockKeys, end - key);
            find_keys(key, keys);
            const bool finite = find_values(key, keys);
            plan_prefetch(key + keys, end);
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
    const T *k_row(int64_t key) const {
        return static_cast<const T *>(args_.k) + key * args_.k_token_stride;
    }
    const T *v_row(int64_t key) const {
        return static_cast<const T *>(args_.v) + key * args_.v_token_stride;
    }

    // ---- packing

    // `count` elements from x on of a row of dim elements: in place, or where the row ends before
    // that, a copy with zeros behind.
    template <int count> static const T *padded(const T *row, int x, int dim, T (&copy)[count]) {
        if (x + count <= dim) return row + x;
        const int left = dim - x;
        std::memcpy(copy, row + x, (size_t)left * sizeof(T));
        std::memset(copy + left, 0, (size_t)(count - left) * sizeof(T));
        return copy;
    }

    // Q of a tile, transposed to [lane][row]; the running maximum and sum at their start.
    VFA_PHASE void start_tile(int t) {
        const Tile &tile = tiles_[t];
        float *q = scratch_.q + (ptrdiff_t)t * scratch_.qk_lanes * kTileRows;
        for (int n = 0; n < tile.vectors; n++) {
            const T *rows[W];
            for (int lane = 0; lane < W; lane++)
                rows[lane] = q_row(tile.row + smaller(n * W + lane, tile.rows - 1));
            for (int x = 0; x < scratch_.qk_lanes; x += kPad) {
                alignas(64) T copies[W][kPadElements];
                const T *parts[W];
                for (int lane = 0; lane < W; lane++)
                    parts[lane] = padded(rows[lane], x * V::kPack, args_.head_dim, copies[lane]);
                F columns[kPad];
                V::template columns<D>(parts, columns);
                for (int y = 0; y < kPad; y++) {
                    if constexpr (V::kPack == 1) columns[y] = columns[y] * V::set1(logit_scale_);
                    V::store(q + (x + y) * kTileRows + n * W, columns[y]);
                }
            }
        }
        float *max = scratch_.max + t * kTileRows, *sum = scratch_.sum + t * kTileRows;
        for (int n = 0; n < tile.vectors; n++) {
            V::store(max + n * W, V::set1(-kInfinity));
            V::store(sum + n * W, V::set1(0.0f));
        }
        if (args_.sinks) start_with_sinks(tile, max, sum);
    }

    // A sink is one term seen already: its logit as the maximum, weight 1, no value.
    void start_with_sinks(const Tile &tile, float *max, float *sum) {
        for (int r = 0; r < tile.rows; r++) {
            const float sink = args_.sinks[head_of(tile.row + r)];
            if (sink == -kInfinity) continue;
            max[r] = bounded(sink * kLog2e, -FLT_MAX, FLT_MAX);
            sum[r] = 1.0f;
        }
    }

    // Whether K and V are read where they are: nothing is packed. A packed copy is dense and costs
    // less to read, but must be read by some tiles to pay.
    bool in_place() const { return num_tiles_ <= kInPlaceTiles; }

    // Sets keys_ and what belongs to it: rows of lanes for the block.
    VFA_PHASE void find_keys(int64_t key, int keys) {
        if (kPackedInMemory && in_place() && args_.head_dim % (4 * V::kPack) == 0) {
            keys_ = reinterpret_cast<const char *>(k_row(key));
            key_step_ = args_.k_token_stride * (ptrdiff_t)sizeof(T);
            key_lanes_ = args_.head_dim / V::kPack;
            return;
        }
        float *to = scratch_.k;
        for (int j = 0; j < keys; j++, to += scratch_.qk_lanes) {
            const T *row = k_row(key + j);
            for (int x = 0; x < scratch_.qk_lanes; x += kPad) {
                alignas(64) T copy[kPadElements];
                F lanes[V::kUnit];
                V::template load_elements<D>(padded(row, x * V::kPack, args_.head_dim, copy),
                                             lanes);
                for (int unit = 0; unit < V::kUnit; unit++)
                    V::store(to + x + unit * W, lanes[unit]);
            }
        }
        keys_ = reinterpret_cast<const char *>(scratch_.k);
        key_step_ = scratch_.qk_lanes * (ptrdiff_t)sizeof(float);
        key_lanes_ = scratch_.qk_lanes;
    }

    // Packs V if it is not read in place. Returns whether all values are finite.
    VFA_PHASE bool find_values(int64_t key, int keys) {
        values_in_place_ = V::kPack == 1 && in_place() && args_.head_dim_v % kPad == 0;
        F marks = V::set1(0.0f); // of values that are not finite
        if (values_in_place_) {
            values_ = v_row(key);
            for (int j = 0; j < keys; j++) {
                const T *row = v_row(key + j);
                for (int x = 0; x < args_.head_dim_v; x += kPad) {
                    F lanes[V::kUnit];
                    V::template load_values<D>(row + x, lanes);
                    for (int unit = 0; unit < V::kUnit; unit++)
                        marks = V::mark_nonfinite(marks, lanes[unit]);
                }
            }
            return !V::marked(marks);
        }
        for (int chunk = 0; chunk < scratch_.v_dim; chunk += kChunkDims) {
            const int dims = chunk_dims(chunk);
            float *to = packed_values(chunk);
            for (int j = 0; j < keys; j += V::kPack, to += dims) {
                const T *row = v_row(key + j);
                // For kPack 2: a row of zeros behind the last key.
                const bool lonely = j + 1 == keys;
                const T *next = lonely ? row : v_row(key + j + 1);
                for (int x = 0; x < dims; x += kPad) {
                    alignas(64) T copy[kPad], next_copy[kPad];
                    const T *part = padded(row, chunk + x, args_.head_dim_v, copy);
                    F lanes[V::kUnit];
                    if constexpr (V::kPack == 1) {
                        V::template load_values<D>(part, lanes);
                    } else {
                        if (lonely) std::memset(next_copy, 0, sizeof next_copy);
                        lanes[0] = V::pair_values(
                            part, lonely ? next_copy
                                         : padded(next, chunk + x, args_.head_dim_v, next_copy));
                    }
                    for (int unit = 0; unit < V::kUnit; unit++) {
                        V::store(to + x + unit * W, lanes[unit]);
                        marks = V::mark_nonfinite(marks, lanes[unit]);
                    }
                }
            }
        }
        return !V::marked(marks);
    }

    int chunk_dims(int x) const { return smaller(kChunkDims, scratch_.v_dim - x); }

    // Packed values of a chunk of dims: [key / kPack][dim of the chunk].
    float *packed_values(int chunk) const {
        return scratch_.v + (ptrdiff_t)chunk * (kBlockKeys / V::kPack);
    }

    // What to prefetch while a block is computed: the next block's keys and values, or after the
    // last block what the next call begins with.
    VFA_PHASE void plan_prefetch(int64_t key, int64_t end) {
        constexpr ptrdiff_t kBytes = sizeof(T);
        prefetcher_.clear();
        if (key < end) {
            const int64_t keys = smaller<int64_t>(kBlockKeys, end - key);
            prefetcher_.add(k_row(key), args_.k_token_stride * kBytes, keys,
                            args_.head_dim * kBytes);
            prefetcher_.add(v_row(key), args_.v_token_stride * kBytes, keys,
                            args_.head_dim_v * kBytes);
        } else {
            prefetch_outputs_and_next_call();
        }
        const int chunks = (scratch_.v_dim + kChunkDims - 1) / kChunkDims;
        int pieces = 0;
        for (int t = 0; t < num_tiles_; t++) pieces += chunks * row_groups(tiles_[t]);
        prefetch_rows_ = (prefetcher_.rows() + pieces - 1) / pieces;
    }

    void prefetch_outputs_and_next_call() {
        constexpr ptrdiff_t kBytes = sizeof(T);
        const ptrdiff_t o_bytes = args_.o_f32 ? sizeof(float) : sizeof(T);
        if (args_.group == 1)
            prefetcher_.add(static_cast<const char *>(args_.o) +
                                args_.row_begin * args_.o_token_stride * o_bytes,
                            args_.o_token_stride * o_bytes, args_.row_end - args_.row_begin,
                            args_.head_dim_v * o_bytes);
        if (args_.next) {
            const AttendArgs &next = *args_.next;
            const int64_t query = next.row_begin / next.group;
            const int64_t queries = (next.row_end - 1) / next.group - query + 1;
            const int64_t keys = smaller<int64_t>(kBlockKeys, next.visible.num_keys);
            // The group's heads lie side by side in the packed layout; else only the first is asked
            // for.
            const int64_t heads = next.q_head_stride == next.head_dim ? next.group : 1;
            prefetcher_.add(static_cast<const T *>(next.q) + query * next.q_token_stride,
                            next.q_token_stride * kBytes, queries, heads * next.head_dim * kBytes);
            prefetcher_.add(next.k, next.k_token_stride * kBytes, keys, next.head_dim * kBytes);
            prefetcher_.add(next.v, next.v_token_stride * kBytes, keys, next.head_dim_v * kBytes);
        }
    }

    // ---- a block of keys for one tile

    int relative(int64_t key, int64_t block, int keys) const {
        return (int)bounded<int64_t>(key - block, 0, keys);
    }

    VFA_PHASE void add_block(int t, int64_t block, int keys, bool finite) {
        Tile &tile = tiles_[t];
        const int64_t top = query_of(tile.row), bottom = query_of(tile.row + tile.rows - 1);
        // Ends of the visible range never fall from row to row, so the tile as a whole sees
        // [begin, end), and all of its rows see [full_begin, full_end).
        int begin = relative(first_key(args_.visible, top), block, keys);
        const int end = relative(end_key(args_.visible, bottom), block, keys);
        if (begin >= end) return;
        begin -= begin % V::kPack; // a packed lane is computed as a whole: masked in part
        const int full_begin =
            bounded(relative(first_key(args_.visible, bottom), block, keys), begin, end);
        const int full_end =
            bounded(relative(end_key(args_.visible, top), block, keys), full_begin, end);
        const bool masked = full_begin > begin || full_end < end;
        if (masked || !finite || adjusts_) find_limits(tile, block, keys);

        int vector_end[kTileVectors]; // keys that some row of the vector sees
        for (int n = 0; n < tile.vectors; n++) {
            vector_end[n] = full_end < end ? larger(scratch_.end[n * W + W - 1], begin) : end;
            V::store(scratch_.block_max + n * W, V::set1(-kInfinity));
        }
        const float *q = scratch_.q + (ptrdiff_t)t * scratch_.qk_lanes * kTileRows;
        if (adjusts_) {
            score_keys<false>(q, 0, tile, begin, end);
            adjust(tile, block, begin, end);
            for (int n = 0; n < tile.vectors; n++) vector_end[n] = end;
        } else {
            if (begin < full_begin) score_keys<true>(q, 0, tile, begin, full_begin);
            score_keys<false>(q, 0, tile, full_begin, full_end);
            int from = full_end; // a staircase: the first vectors see fewer keys
            for (int n = 0; n < tile.vectors; n++) {
                if (from >= vector_end[n]) continue;
                score_keys<true>(q, n, tile, from, vector_end[n]);
                from = vector_end[n];
            }
        }

        for (int n = 0; n < tile.vectors; n++) weigh(t, n, begin, vector_end[n], end, finite);
        if (finite)
            add_values(t, begin, end, masked);
        else
            add_values_exactly(t, block);
        tile.fresh = false;
    }

    // Logits of keys [begin, end) for the tile's vectors of rows from n on.
    template <bool mask>
    void score_keys(const float *q, int n, const Tile &tile, int begin, int end) const {
        const ScoreArgs args = {q + n * W,
                                keys_,
                                key_step_,
                                key_lanes_,
                                logit_scale_,
                                scratch_.s + n * W,
                                scratch_.block_max + n * W,
                                scratch_.first + n * W,
                                scratch_.end + n * W};
        score<V, mask>(args, tile.vectors - n, begin, end);
    }

    // Visible keys of each lane, relative to the block.
    void find_limits(const Tile &tile, int64_t block, int keys) {
        for (int r = 0; r < tile.vectors * W; r++) {
            const int64_t i = query_of(tile.row + smaller(r, tile.rows - 1));
            scratch_.first[r] = relative(first_key(args_.visible, i), block, keys);
            scratch_.end[r] = relative(end_key(args_.visible, i), block, keys);
        }
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

    // Weights of one vector of rows: logits of [begin, vector_end) -> P, zeros up to end; the
    // running maximum and sum move on, and alpha is the factor for what was accumulated before.
    VFA_PHASE void weigh(int t, int n, int begin, int vector_end, int end, bool finite) {
        float *max_at = scratch_.max + t * kTileRows + n * W;
        float *sum_at = scratch_.sum + t * kTileRows + n * W;
        float *s = scratch_.s + n * W, *p = scratch_.p + n * W;
        const F old_max = V::load(max_at);
        const F max = V::max(V::load(scratch_.block_max + n * W), old_max);
        // -infinity - -infinity would be NaN: rows that saw nothing yet are measured against 0.
        const F reference = V::replace_minus_infinity(max);
        const F alpha = exp2_floored<V, kPrecise>(old_max - reference);
        const F sum = finite ? weigh_column<V, kPrecise, false>(s, p, begin, vector_end, reference)
                             : weigh_column<V, kPrecise, true>(s, p, begin, vector_end, reference);
        V::store(max_at, max);
        V::store(scratch_.alpha + n * W, alpha);
        V::store(sum_at, V::fma(V::load(sum_at), alpha, sum));
        for (int step = steps(vector_end); step < steps(end); step++)
            V::store(p + step * kTileRows, V::set1(0.0f));
    }

    // Packed lanes that hold keys [0, keys).
    static int steps(int keys) { return (keys + V::kPack - 1) / V::kPack; }

    static int row_groups(const Tile &tile) { return (tile.rows + V::kRows - 1) / V::kRows; }

    // O = O * alpha + P V. Rows in even groups; with a mask each group stops at its last visible
    // key.
    VFA_PHASE void add_values(int t, int begin, int end, bool masked) {
        const Tile &tile = tiles_[t];
        const int groups = row_groups(tile);
        for (int x = 0; x < scratch_.v_dim; x += kChunkDims) {
            int r = 0;
            for (int g = 0; g < groups; g++) {
                prefetcher_.issue(prefetch_rows_);
                const int rows = (tile.rows - r + groups - g - 1) / (groups - g);
                const int from = masked ? larger(begin, scratch_.first[r]) : begin;
                const int to = masked ? smaller(end, scratch_.end[r + rows - 1]) : end;
                const int step = from / V::kPack;
                ValueArgs args = {scratch_.p + step * kTileRows + r,
                                  nullptr,
                                  0,
                                  larger(steps(to) - step, 0),
                                  o_row(t, r) + x,
                                  scratch_.v_dim,
                                  scratch_.alpha + r,
                                  tile.fresh};
                const int dims = chunk_dims(x);
                if (values_in_place_) {
                    args.v =
                        reinterpret_cast<const char *>(values_ + from * args_.v_token_stride + x);
                    args.v_step = args_.v_token_stride * (ptrdiff_t)sizeof(T);
                    value_chunk<V, MemoryValues<V, D>>(args, rows, dims / W);
                } else {
                    args.v = reinterpret_cast<const char *>(packed_values(x) + step * dims);
                    args.v_step = dims * (ptrdiff_t)sizeof(float);
                    value_chunk<V, PackedValues<V>>(args, rows, dims / W);
                }
                r += rows;
            }
        }
    }

    // For blocks with infinities or NaN among the values: each row by itself over the keys that it
    // sees, since a weight of 0 for a key that it does not see would still give 0 * NaN.
    void add_values_exactly(int t, int64_t block) {
        const Tile &tile = tiles_[t];
        for (int r = 0; r < tile.rows; r++)
            for (int x = 0; x < scratch_.v_dim; x += kPad) {
                float *o = o_row(t, r) + x;
                F sums[V::kUnit];
                for (int unit = 0; unit < V::kUnit; unit++)
                    sums[unit] = tile.fresh
                                     ? V::set1(0.0f)
                                     : V::broadcast(scratch_.alpha + r) * V::load(o + unit * W);
                for (int key = scratch_.first[r]; key < scratch_.end[r]; key++) {
                    alignas(64) T copy[kPad];
                    F values[V::kUnit];
                    V::template load_values<D>(
                        padded(v_row(block + key), x, args_.head_dim_v, copy), values);
                    const F weight = V::broadcast(scratch_.s + key * kTileRows + r);
                    for (int unit = 0; unit < V::kUnit; unit++)
                        sums[unit] = V::fma(weight, values[unit], sums[unit]);
                }
                for (int unit = 0; unit < V::kUnit; unit++) V::store(o + unit * W, sums[unit]);
            }
    }

    float *o_row(int t, int r) const {
        return scratch_.o + ((ptrdiff_t)t * kTileRows + r) * scratch_.v_dim;
    }

    // ---- output

    VFA_PHASE void finish_tile(int t) {
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
            const float *o = empty || tile.fresh ? nullptr : o_row(t, r);
            const int64_t at = i * args_.o_token_stride + head * args_.o_head_stride;
            if (args_.o_f32)
                write_row<VFA_DTYPE_F32>(static_cast<float *>(args_.o) + at, o, inverse[r]);
            else
                write_row<D>(static_cast<T *>(args_.o) + at, o, inverse[r]);
            if (args_.lse)
                args_.lse[i * args_.lse_token_stride + head * args_.lse_head_stride] =
                    empty              ? -kInfinity
                    : sum[r] == sum[r] ? lse[r]
                                       : sum[r]; // log2 loses NaN
        }
    }

    // o * inverse in the order of memory; o null: zeros. O holds dims in the order that values of D
    // were loaded in, so it is D that puts them back.
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
                alignas(64) typename Element<Out>::Type whole[kPad];
                V::template store_elements<D, Out>(whole, elements);
                std::memcpy(to + x, whole, (size_t)(dim - x) * sizeof *to);
            }
        }
    }

    const AttendArgs &args_;
    Scratch<V> scratch_;
    const bool adjusts_;
    const float logit_scale_;
    Tile tiles_[kMaxTiles];
    const int num_tiles_;
    // The block at hand: see ScoreArgs and ValueArgs.
    const char *keys_ = nullptr;
    ptrdiff_t key_step_ = 0;
    int key_lanes_ = 0;
    const T *values_ = nullptr;
    bool values_in_place_ = false;
    Prefetcher prefetcher_;
    int prefetch_rows_ = 0; // at a time
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
