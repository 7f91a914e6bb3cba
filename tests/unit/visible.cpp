// problem/visible: against the definition of vfa.h, pair by pair.
#include "problem/visible.hpp"

#include "doctest.hpp"

#include <cstdint>
#include <string>

using namespace vfa;

namespace {

bool sees(vfa_causal causal, int64_t left, int64_t right, int64_t i, int64_t j, int64_t len_q,
          int64_t len_k) {
    const int64_t p = causal == VFA_CAUSAL_TOP_LEFT ? i : i + len_k - len_q;
    if (causal != VFA_CAUSAL_NONE && j > p) return false;
    return (left == -1 || j >= p - left) && (right == -1 || j <= p + right);
}

} // namespace

TEST_CASE("visible: ranges and counts are those of the definition") {
    int wrong_pairs = 0, wrong_counts = 0, falling = 0, shapes = 0;
    std::string first;
    for (const vfa_causal causal : {VFA_CAUSAL_NONE, VFA_CAUSAL_TOP_LEFT, VFA_CAUSAL_BOTTOM_RIGHT})
        for (const int32_t left : {-1, 0, 1, 2, 5, 100, INT32_MAX})
            for (const int32_t right : {-1, 0, 1, 3, 100, INT32_MAX})
                for (int64_t len_q = 0; len_q < 9; len_q++)
                    for (int64_t len_k = 0; len_k < 9; len_k++, shapes++) {
                        const Visible visible = make_visible(causal, left, right, len_q, len_k);
                        int64_t last_first = 0, last_end = 0;
                        int64_t counted[10] = {}; // pairs of the queries before i
                        for (int64_t i = 0; i < len_q; i++) {
                            counted[i + 1] = counted[i];
                            const int64_t begin = first_key(visible, i), end = end_key(visible, i);
                            for (int64_t j = 0; j < len_k; j++) {
                                const bool want = sees(causal, left, right, i, j, len_q, len_k);
                                counted[i + 1] += want;
                                if (want == (j >= begin && j < end)) continue;
                                if (wrong_pairs++ == 0)
                                    first = "causal " + std::to_string(causal) + " window " +
                                            std::to_string(left) + "," + std::to_string(right) +
                                            " lengths " + std::to_string(len_q) + "/" +
                                            std::to_string(len_k) + " query " + std::to_string(i) +
                                            " key " + std::to_string(j);
                            }
                            // Kernels rely on ends that never fall, inside [0, num_keys].
                            falling += begin < last_first || end < last_end || begin > len_k ||
                                       end > len_k;
                            last_first = begin;
                            last_end = end;
                        }
                        for (int64_t from = 0; from <= len_q; from++)
                            for (int64_t to = from; to <= len_q; to++)
                                wrong_counts +=
                                    visible_pairs(visible, from, to) != counted[to] - counted[from];
                    }
    INFO(first);
    CHECK(wrong_pairs == 0);
    CHECK(wrong_counts == 0);
    CHECK(falling == 0);
    CHECK(shapes == 3 * 7 * 6 * 81);
}

TEST_CASE("visible: the largest lengths") {
    const int64_t n = INT32_MAX;
    CHECK(visible_pairs(make_visible(VFA_CAUSAL_NONE, -1, -1, n, n), 0, n) == n * n);
    CHECK(visible_pairs(make_visible(VFA_CAUSAL_TOP_LEFT, -1, -1, n, n), 0, n) == n * (n + 1) / 2);
    CHECK(visible_pairs(make_visible(VFA_CAUSAL_NONE, INT32_MAX, INT32_MAX, n, n), 0, n) == n * n);
    CHECK(visible_pairs(make_visible(VFA_CAUSAL_NONE, 0, 0, n, n), 0, n) == n);
    CHECK(visible_pairs(make_visible(VFA_CAUSAL_BOTTOM_RIGHT, -1, -1, n, 1), 0, n) == 1);
    CHECK(visible_pairs(make_visible(VFA_CAUSAL_TOP_LEFT, -1, -1, n, 1), 0, n) == n);
    CHECK(visible_pairs(make_visible(VFA_CAUSAL_NONE, -1, -1, n, n), 5, 5) == 0);
    CHECK(visible_pairs(make_visible(VFA_CAUSAL_NONE, -1, -1, n, n), 6, 5) == 0);
}
