// visible.hpp - which keys a query sees. Used by the plan and by every kernel.
//
// Causal rules and windows are one thing: query i sees the keys within [i + diagonal - left,
// i + diagonal + right] that exist. So the visible keys of a row are one contiguous range, and both
// of its ends never fall from one row to the next. Kernels rely on both facts.
#pragma once
#include <cstdint>

#include <vfa/vfa.h>

#include "core/bounded.hpp"

namespace vfa {

struct Visible {
    int64_t num_keys;
    int64_t diagonal; // the aligned diagonal of query 0
    int64_t left;     // >= 0
    int64_t right;    // >= -1: -1 never occurs, causal gives 0
};

// Larger than any distance between two positions, small enough to add positions to.
constexpr int64_t kUnlimited = (int64_t)1 << 40;

static inline Visible make_visible(vfa_causal causal, int32_t window_left, int32_t window_right,
                                   int64_t num_queries, int64_t num_keys) {
    Visible visible;
    visible.num_keys = num_keys;
    visible.diagonal = causal == VFA_CAUSAL_TOP_LEFT ? 0 : num_keys - num_queries;
    visible.left = window_left < 0 ? kUnlimited : window_left;
    visible.right = window_right < 0 ? kUnlimited : window_right;
    if (causal != VFA_CAUSAL_NONE) visible.right = 0; // a window to the right cannot widen causal
    return visible;
}

// Row i sees keys [first_key, end_key); an empty range if first_key >= end_key.
static inline int64_t first_key(const Visible &visible, int64_t i) {
    return bounded<int64_t>(i + visible.diagonal - visible.left, 0, visible.num_keys);
}
static inline int64_t end_key(const Visible &visible, int64_t i) {
    return bounded<int64_t>(i + visible.diagonal + visible.right + 1, 0, visible.num_keys);
}

// Visible (query, key) pairs of the queries [begin, end).
int64_t visible_pairs(const Visible &visible, int64_t begin, int64_t end) noexcept;

} // namespace vfa
