// case.hpp - one attention problem: as a line of text, and with its numbers.
//
//   seqs=1,17,0,300/33,17,5,300   query and key lengths (without /: the same); 1..70 counts up;
//                                 one length goes with all of the other side; "none": no sequences
//   hq=8 hkv=2                    heads (default 1)
//   d=128 dv=64                   head dims (default 64; dv as d)
//   causal=none|top_left|bottom_right
//   window=64,0                   left and right, -1: unlimited
//   scale=-0.3                    default: 1/sqrt(d)
//   softcap=30   alibi
//   sink   sink=none              a logit for each q head; none: all of them -infinity
//   dtype=bf16|f16|f32   o_f32
//   amp=4                         factor on q and on k, so logits grow with its square
//   strides=packed|padded|fused|heads   layout of q, k, v, o (heads: [heads, total, dim])
//   lse=packed|padded|heads|none
//   gaps                          rows between the sequences that seqused leaves out
//   tails                         buffers longer than the plan needs
//   hints                         max_seqlen_* are given
//   offset                        buffers start one element late
//
// A list with commas (for window: with ;) is a case for each value: "d=64,128 dtype=bf16,f16" are four.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <vfa/vfa.h>

namespace conform {

struct Layout {
    enum class Strides { packed, padded, fused, heads } strides = Strides::packed;
    enum class Lse { packed, padded, heads, none } lse = Lse::packed;
    bool gaps = false, tails = false, hints = false, offset = false;
};

enum class Sinks { off, some, minus_infinity };

struct Case {
    std::string text; // that makes this case again
    std::vector<int32_t> len_q, len_k;
    int heads_q = 1, heads_kv = 1;
    int d = 64, dv = 64;
    vfa_dtype dtype = VFA_DTYPE_BF16;
    bool o_f32 = false;
    std::optional<float> scale;
    float softcap = 0;
    vfa_causal causal = VFA_CAUSAL_NONE;
    int32_t window_left = -1, window_right = -1;
    bool alibi = false;
    Sinks sinks = Sinks::off;
    double amp = 1;
    Layout layout;

    size_t num_seqs() const { return len_q.size(); }
    int64_t total_q() const;
    int64_t total_k() const;
    vfa_dtype o_dtype() const { return o_f32 ? VFA_DTYPE_F32 : dtype; }
    float used_scale() const;
};

// All cases of a line; none for a blank line or a comment (#). Throws std::invalid_argument.
std::vector<Case> parse_cases(const std::string &line);
// A line that is one case.
Case parse_case(const std::string &line);

// A line that is one case with a bit of everything, of modest size.
std::string random_line(uint64_t seed);

// A case with its numbers: all are values of the dtype.
struct Problem : Case {
    std::vector<float> q, k, v;             // [total][heads][dim], without gaps
    std::vector<float> slopes, sink_logits; // [heads_q], or empty
};

// The same numbers for the same text and seed.
Problem make_problem(const Case &c, uint64_t seed = 1);

} // namespace conform
