// kernel_table.hpp - what a CPU kernel is: one POD argument, one function pointer.
//
// A kernel knows nothing of sequences, batches or threads. It is noexcept, allocates nothing, and
// reads and writes only the rows it is given.
#pragma once
#include <cstddef>
#include <cstdint>

#include <vfa/vfa.h>

#include "problem/visible.hpp"

namespace vfa::cpu {

// What decides a kernel's tiling and scratch memory.
struct Shape {
    vfa_dtype dtype;
    int32_t head_dim, head_dim_v; // 1..256
    int64_t max_keys;
};

// Attention of some rows of one kv head. The queries of the heads that share the kv head are
// flattened into rows: row r is query r / group of q head r % group. Pointers lead to query 0, key
// 0 and the first head of the group; strides count elements.
struct AttendArgs {
    const void *q; // [num_queries][group][head_dim], Shape.dtype
    int64_t q_token_stride, q_head_stride;
    const void *k; // [visible.num_keys][head_dim]
    int64_t k_token_stride;
    const void *v; // [visible.num_keys][head_dim_v]
    int64_t v_token_stride;
    void *o; // [num_queries][group][head_dim_v], Shape.dtype, or float if o_f32
    int64_t o_token_stride, o_head_stride;
    float *lse; // [num_queries][group], or null
    int64_t lse_token_stride, lse_head_stride;

    int64_t row_begin, row_end; // at most Kernels::rows_per_call rows
    int32_t group;              // q heads of this kv head
    int32_t head_dim, head_dim_v;
    Visible visible;
    float scale;
    float softcap;             // 0 = off
    const float *alibi_slopes; // [group], or null
    int64_t alibi_offset;      // num_keys - num_queries
    const float *sinks;        // [group], or null
    bool o_f32;
    const AttendArgs *next; // of the call that comes after this one, to prefetch; or null
    void *scratch;          // Kernels::scratch_bytes, aligned to 64 bytes; contents do not matter
};

struct Kernels {
    const char *name;
    // Rows that one call takes at most. Depends on the shape alone, so that bits never depend on
    // how the work was cut.
    int64_t (*rows_per_call)(const Shape &);
    size_t (*scratch_bytes)(const Shape &);
    void (*attend[3])(const AttendArgs &) noexcept; // by vfa_dtype
};

} // namespace vfa::cpu
