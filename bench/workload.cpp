#include "workload.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <stdexcept>

namespace bench {

namespace {

// Lengths spread evenly over orders of magnitude, as lengths of real texts are. The same on every
// machine: a linear congruential generator (Numerical Recipes), not the library's.
std::string log_uniform(int count, int low, int high, uint32_t seed) {
    std::ostringstream text;
    for (int i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        const double u = (seed >> 8) / 16777216.0;
        const long length = std::lround(low * std::pow((double)high / low, u));
        text << (i ? "," : "") << length;
    }
    return text.str();
}

std::string repeated(int count, int length) {
    std::ostringstream text;
    for (int i = 0; i < count; i++) text << ',' << length;
    return text.str();
}

// Token counts of the texts that examples/embed embeds.
const char *const kMiniLmLengths =
    "3,5,7,7,8,7,20,47,28,20,28,9,21,8,7,105,15,16,8,27,24,6,19,22,256,21,22,18,10,25,10,"
    "20,71,9,18,13,7,16,17,127,21,13,18,52,27,15,10,78,27,20,6,12,18,18,9,149,24,14,21,9,"
    "23,9,21,20,18,16,13,13,22,8,59,22,11,14,32,13,15,11,19,28,12,23,14,105,5,9,7,6,8,7,8";

std::vector<Workload> make_workloads() {
    const std::string ragged = "seqs=" + log_uniform(64, 8, 512, 12345);
    const std::string sentences = "seqs=" + log_uniform(256, 8, 64, 777);
    const auto make = [](const char *name, const char *about, const std::string &text) {
        return Workload{name, about, conform::parse_case(text)};
    };
    return {
        make("W1", "1 x 2048, 16 heads, d 64", "seqs=2048 hq=16 hkv=16 d=64"),
        make("W2", "1 x 2048, 32/8 heads, d 128, causal",
             "seqs=2048 hq=32 hkv=8 d=128 causal=bottom_right"),
        make("W3", "64 x 8..512, 12 heads, d 64", ragged + " hq=12 hkv=12 d=64"),
        make("W3c", "W3, causal", ragged + " hq=12 hkv=12 d=64 causal=bottom_right"),
        make("W5", "256 x 8..64, 12 heads, d 64", sentences + " hq=12 hkv=12 d=64"),
        make("W6", "1 x 8192 and 200 x 64, 32/8 heads, d 128, causal",
             "seqs=8192" + repeated(200, 64) + " hq=32 hkv=8 d=128 causal=bottom_right"),
        make("W7", "the texts of examples/embed, 12 heads, d 32",
             std::string("seqs=") + kMiniLmLengths + " hq=12 hkv=12 d=32"),
        make("d32", "W3 with d 32", ragged + " hq=12 hkv=12 d=32"),
        make("d80", "W3 with 8 heads, d 80", ragged + " hq=8 hkv=8 d=80"),
        make("d96", "W3 with 8 heads, d 96", ragged + " hq=8 hkv=8 d=96"),
        make("d192", "W3 with 4 heads, d 192", ragged + " hq=4 hkv=4 d=192"),
        make("d256", "W3 with 4 heads, d 256", ragged + " hq=4 hkv=4 d=256"),
        make("window", "W1 with a window of 256 keys, causal",
             "seqs=2048 hq=16 hkv=16 d=64 causal=bottom_right window=255,0"),
        make("softcap", "W1 with a softcap", "seqs=2048 hq=16 hkv=16 d=64 softcap=50"),
    };
}

} // namespace

const std::vector<Workload> &named_workloads() {
    static const std::vector<Workload> workloads = make_workloads();
    return workloads;
}

Workload find_workload(const std::string &text) {
    for (const Workload &workload : named_workloads())
        if (workload.name == text) return workload;
    if (text.find('=') == std::string::npos)
        throw std::invalid_argument("\"" + text +
                                    "\" is neither a workload nor a case: see --list");
    return {text, "a case", conform::parse_case(text)};
}

double flops_of(const conform::Case &c) {
    double pairs = 0;
    for (size_t b = 0; b < c.num_seqs(); b++) {
        const int64_t len_q = c.len_q[b], len_k = c.len_k[b];
        const int64_t shift = c.causal == VFA_CAUSAL_TOP_LEFT ? 0 : len_k - len_q;
        for (int64_t i = 0; i < len_q; i++) {
            int64_t first = 0, last = len_k - 1;
            if (c.window_left >= 0) first = std::max(first, i + shift - c.window_left);
            if (c.window_right >= 0) last = std::min(last, i + shift + c.window_right);
            if (c.causal != VFA_CAUSAL_NONE) last = std::min(last, i + shift);
            pairs += (double)std::max<int64_t>(0, last - first + 1);
        }
    }
    return pairs * 2 * (c.d + c.dv) * c.heads_q;
}

} // namespace bench
