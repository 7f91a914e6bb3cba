// schedule.hpp - cuts a batch into units of work for threads.
//
// A unit is a run of short sequences, or some heads of a middling one, or some rows of one head of
// a long one, so that a unit is worth a thread's while and none is most of the batch. Memory and
// time are linear in the number of sequences, not in heads or rows: units are kept as pieces that
// count them.
#pragma once
#include <cstdint>
#include <memory_resource>
#include <vector>

#include "problem/problem.hpp"

namespace vfa {

// Rows are (query, head of the group): see kernels/cpu/kernel_table.hpp.
struct WorkUnit {
    size_t seq_begin, seq_end;
    int32_t head_begin, head_end;   // kv heads
    int64_t block_begin, block_end; // row blocks of each of the sequences; block_end < 0: all
};

// Rows of one kernel call for a sequence of num_rows: even blocks of at most rows_per_call. Depends
// on the sequence alone, so that bits do, too.
int64_t rows_per_block(int64_t num_rows, int64_t rows_per_call) noexcept;

class Schedule {
public:
    explicit Schedule(std::pmr::memory_resource *memory) : pieces_(memory) {}

    void reserve(size_t num_seqs); // throws std::bad_alloc
    // After a reserve that is large enough.
    void build(const Problem &problem, const Lengths &lengths, int64_t rows_per_call) noexcept;

    uint32_t num_units() const noexcept { return num_units_; }
    WorkUnit unit(uint32_t index) const noexcept;

private:
    // Sequences [seq_begin, seq_end) as one unit, or one sequence as several.
    struct Piece {
        uint32_t seq_begin, seq_end;
        float cost;                          // of one head: longest first
        int32_t heads_per_unit;              // heads_kv: all
        int64_t blocks_per_unit, num_blocks; // -1: all, of each sequence
        uint32_t first_unit;

        int64_t units_per_head() const { // that share the heads of a unit
            return num_blocks < 0 ? 1 : (num_blocks + blocks_per_unit - 1) / blocks_per_unit;
        }
    };
    std::pmr::vector<Piece> pieces_;
    int32_t heads_ = 1;
    uint32_t num_units_ = 0;
};

} // namespace vfa
