// problem.hpp - a checked attention problem: what to compute, the sequences' lengths, the buffers.
// validate.hpp makes these from what the caller gave; after that nothing is checked again.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <span>
#include <vector>

#include <vfa/vfa.h>

#include "problem/visible.hpp"

namespace vfa {

struct Strides {
    int64_t token, head; // elements; resolved, never 0
};

// A vfa_attn_desc with every default filled in.
struct Problem {
    vfa_backend backend; // as asked for
    vfa_dtype dtype;
    bool o_f32; // the type of o; true also where dtype is f32
    int32_t heads_q, heads_kv, group;
    int32_t head_dim, head_dim_v;
    float scale;
    float softcap;
    vfa_causal causal;
    int32_t window_left, window_right;
    int32_t max_seqlen_q, max_seqlen_k; // hints; 0 = none
    Strides q, k, v, o, lse;
    int64_t reserve_seqs;

    Visible visible(int64_t num_queries, int64_t num_keys) const {
        return make_visible(causal, window_left, window_right, num_queries, num_keys);
    }
};

// The arrays that the caller gave for the lengths.
struct LengthArrays {
    std::span<const int32_t> cu_seqlens_q, cu_seqlens_k; // num_seqs + 1, or both empty
    std::span<const int32_t> seqused_q, seqused_k;       // num_seqs, or empty
};

// One sequence: rows of q, o, lse and rows of k, v.
struct Sequence {
    int64_t q_begin, num_queries;
    int64_t k_begin, num_keys;
};

// Copies of checked arrays.
class Lengths {
public:
    explicit Lengths(std::pmr::memory_resource *memory)
        : cu_seqlens_q_(memory), cu_seqlens_k_(memory), seqused_q_(memory), seqused_k_(memory) {}

    void reserve(size_t num_seqs);              // throws std::bad_alloc; changes nothing else
    void assign(const LengthArrays &) noexcept; // after a reserve that is large enough

    size_t num_seqs() const { return cu_seqlens_q_.empty() ? 0 : cu_seqlens_q_.size() - 1; }
    int64_t total_q() const { return cu_seqlens_q_.empty() ? 0 : cu_seqlens_q_.back(); }
    int64_t total_k() const { return cu_seqlens_k_.empty() ? 0 : cu_seqlens_k_.back(); }
    Sequence sequence(size_t b) const {
        const int64_t q = cu_seqlens_q_[b], k = cu_seqlens_k_[b];
        return {q, seqused_q_.empty() ? cu_seqlens_q_[b + 1] - q : seqused_q_[b], //
                k, seqused_k_.empty() ? cu_seqlens_k_[b + 1] - k : seqused_k_[b]};
    }

private:
    std::pmr::vector<int32_t> cu_seqlens_q_, cu_seqlens_k_, seqused_q_, seqused_k_;
};

// Host buffers of one forward call, checked against a plan. Element types as the problem says.
struct Buffers {
    const void *q, *k, *v;
    void *o;
    float *lse; // null: not wanted
};

} // namespace vfa
