#include "backend/cpu/schedule.hpp"

#include <algorithm>

namespace vfa {

namespace {

// Costs are counted in floating-point operations. A unit of 2 million of them is 20 to 100
// microseconds: far above the price of taking a unit (below 1), far below a batch.
constexpr double kUnitCost = 2e6;
// Units are numbered with 32 bits; this bounds them for any batch, however large.
constexpr double kMaxUnits = 1 << 24;
// What a kernel call costs beside the products, as measured with one-token sequences (about 1
// microsecond a call), and what packing costs a row or key and element, so that short sequences
// count for what they take.
constexpr double kCallCost = 2e4, kElementCost = 8;

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// One kv head of a sequence.
double head_cost(const Problem &p, const Sequence &s) {
    if (s.num_queries == 0) return 0;
    const double pairs =
        (double)visible_pairs(p.visible(s.num_queries, s.num_keys), 0, s.num_queries);
    const double dims = p.head_dim + p.head_dim_v;
    const double rows = (double)s.num_queries * p.group;
    return kCallCost + 2 * dims * pairs * p.group +
           kElementCost * dims * (rows + (double)s.num_keys) / 2;
}

} // namespace

int64_t rows_per_block(int64_t num_rows, int64_t rows_per_call) noexcept {
    const int64_t blocks = divide_up(num_rows, rows_per_call);
    return blocks == 0 ? 1 : divide_up(num_rows, blocks);
}

void Schedule::reserve(size_t num_seqs) { pieces_.reserve(num_seqs); }

void Schedule::build(const Problem &problem, const Lengths &lengths,
                     int64_t rows_per_call) noexcept {
    pieces_.clear();
    heads_ = problem.heads_kv;
    double total = 0;
    for (size_t b = 0; b < lengths.num_seqs(); b++)
        total += heads_ * head_cost(problem, lengths.sequence(b));
    const double unit_cost = std::max(kUnitCost, total / kMaxUnits);

    double run_cost = 0; // of the run of short sequences at the end of pieces_; 0: no such run
    for (size_t b = 0; b < lengths.num_seqs(); b++) {
        const Sequence sequence = lengths.sequence(b);
        const double cost = head_cost(problem, sequence);
        if (cost == 0) continue;
        const int64_t num_rows = sequence.num_queries * problem.group;
        const int64_t num_blocks = divide_up(num_rows, rows_per_block(num_rows, rows_per_call));

        if (heads_ * cost <= unit_cost) { // joins the run before it, or begins one
            if (run_cost == 0 || run_cost + heads_ * cost > unit_cost) {
                pieces_.push_back(Piece{(uint32_t)b, 0, 0, heads_, -1, -1, 0});
                run_cost = 0;
            }
            run_cost += heads_ * cost;
            pieces_.back().seq_end = (uint32_t)b + 1;
            pieces_.back().cost = (float)std::min(run_cost, unit_cost);
            continue;
        }
        run_cost = 0;
        Piece piece{(uint32_t)b, (uint32_t)b + 1, (float)cost, 1, num_blocks, num_blocks, 0};
        if (cost <= unit_cost)
            piece.heads_per_unit = std::max(1, (int32_t)(unit_cost / cost));
        else // even parts of at least one block
            piece.blocks_per_unit = std::clamp<int64_t>(
                (int64_t)(unit_cost / (cost / (double)num_blocks)), 1, num_blocks);
        pieces_.push_back(piece);
    }

    // Longest first: the last units to be taken are then short, and threads end together.
    std::sort(pieces_.begin(), pieces_.end(), [](const Piece &a, const Piece &b) {
        return a.cost != b.cost ? a.cost > b.cost : a.seq_begin < b.seq_begin;
    });
    num_units_ = 0;
    for (Piece &piece : pieces_) {
        piece.first_unit = num_units_;
        num_units_ += (uint32_t)(divide_up(heads_, piece.heads_per_unit) * piece.units_per_head());
    }
}

WorkUnit Schedule::unit(uint32_t index) const noexcept {
    const Piece &piece =
        *(std::upper_bound(pieces_.begin(), pieces_.end(), index,
                           [](uint32_t i, const Piece &p) { return i < p.first_unit; }) -
          1);
    const int64_t parts = piece.units_per_head();
    const int64_t local = index - piece.first_unit;
    const int32_t head = (int32_t)(local / parts) * piece.heads_per_unit;
    // The last rows first: with a causal mask they see the most keys.
    const int64_t block = (parts - 1 - local % parts) * piece.blocks_per_unit;
    return {piece.seq_begin,
            piece.seq_end,
            head,
            std::min(head + piece.heads_per_unit, heads_),
            piece.num_blocks < 0 ? 0 : block,
            piece.num_blocks < 0 ? -1 : std::min(block + piece.blocks_per_unit, piece.num_blocks)};
}

} // namespace vfa
