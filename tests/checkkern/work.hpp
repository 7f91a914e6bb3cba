// work.hpp - one kernel call with all its memory.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "guarded.hpp"
#include "kernels/cpu/dispatch.hpp"

namespace checkkern {

using vfa::cpu::AttendArgs;
using vfa::cpu::Kernels;

// What is in q, k and v.
enum class Fill { normal, large, tiny, equal, one_hot, special };

struct Shape {
    vfa_dtype dtype = VFA_DTYPE_BF16;
    bool o_f32 = false;
    int32_t head_dim = 64, head_dim_v = 64, group = 1;
    int64_t num_queries = 1, num_keys = 1;
    vfa_causal causal = VFA_CAUSAL_NONE;
    int32_t window_left = -1, window_right = -1;
    int64_t row_begin = 0, row_end = 1;
    float scale = 0.125f, softcap = 0;
    bool alibi = false, sinks = false, lse = true;
    int64_t gap = 0;          // elements between rows
    bool heads_first = false; // [group][queries] instead of [queries][group]
    Fill fill = Fill::normal;

    int64_t first_query() const { return row_begin / group; }
    int64_t last_query() const { return (row_end - 1) / group; }
    vfa::Visible visible() const {
        return vfa::make_visible(causal, window_left, window_right, num_queries, num_keys);
    }
    std::string text() const;
};

// Anything a kernel may be asked; rows_per_call is the kernel's.
Shape random_shape(uint64_t seed, vfa_dtype dtype, const Kernels &kernels);

// What the definition (math_kernels) makes of a shape's inputs, and how far from it rounding may lead.
struct Definition {
    std::vector<float> o, lse; // [row][dim], [row]
    std::vector<double> o_limit, lse_limit;
};

// The shape's memory. Only the rows that the call has a right to exist: those of [row_begin, row_end)
// and of the keys that they see. What lies between them is NaN in q, k and v, a pattern in o and lse.
class Work {
public:
    // at_end: where the guard page is.
    Work(const Shape &shape, uint64_t seed, const Kernels &kernels, bool at_end);

    const AttendArgs &args() const { return args_; }
    // The call; "" or what went wrong with memory or environment.
    std::string run(const Kernels &kernels);
    // The same for the same shape and seed, wherever the memory is.
    Definition definition() const;
    // After run(): "" or where the result is not within the limits.
    std::string compare(const Definition &definition) const;

private:
    struct Rows; // of a tensor: where they are
    void fill_inputs(uint64_t seed);
    std::string describe(const void *address) const;

    const Shape shape_;
    std::vector<int64_t> rows_, keys_; // that the call is about
    std::vector<std::unique_ptr<Guarded>> memory_;
    std::vector<std::vector<char>> before_;             // of memory_
    size_t q_, k_, v_, o_, lse_, scratch_;              // indices into memory_
    std::vector<float> q_values_, k_values_, v_values_; // [row][dim]
    std::vector<float> slopes_, sinks_;
    AttendArgs args_{}, next_{};
};

} // namespace checkkern
