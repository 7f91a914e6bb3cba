#include "problem/visible.hpp"

namespace vfa {

namespace {

// sum of clamp(t, 0, limit) over t = 1..last
int64_t clamped_sum(int64_t last, int64_t limit) {
    if (last <= 0) return 0;
    if (last <= limit) return last * (last + 1) / 2;
    return limit * (limit + 1) / 2 + (last - limit) * limit;
}

// sum of clamp(i + offset, 0, limit) over i in [begin, end), 0 <= begin
int64_t clamped_sum(int64_t begin, int64_t end, int64_t offset, int64_t limit) {
    // Beyond that nothing changes, but products could overflow.
    offset = bounded(offset, -end, limit);
    return clamped_sum(end - 1 + offset, limit) - clamped_sum(begin - 1 + offset, limit);
}

} // namespace

int64_t visible_pairs(const Visible &visible, int64_t begin, int64_t end) noexcept {
    if (begin >= end) return 0;
    const int64_t end_offset = visible.diagonal + visible.right + 1;
    const int64_t first_offset = visible.diagonal - visible.left;
    return clamped_sum(begin, end, end_offset, visible.num_keys) -
           clamped_sum(begin, end, first_offset, visible.num_keys);
}

} // namespace vfa
