#include "oracle.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "numbers.hpp"

namespace conform {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool sees(const Case &c, int64_t i, int64_t j, int64_t len_q, int64_t len_k) {
    if (c.causal == VFA_CAUSAL_TOP_LEFT && j > i) return false;
    if (c.causal == VFA_CAUSAL_BOTTOM_RIGHT && j > i + len_k - len_q) return false;
    const int64_t p = c.causal == VFA_CAUSAL_TOP_LEFT ? i : i + len_k - len_q;
    if (c.window_left != -1 && j < p - c.window_left) return false;
    if (c.window_right != -1 && j > p + c.window_right) return false;
    return true;
}

// One row: query i of sequence (q0, k0: its first rows) and head h.
struct Row {
    int64_t q0, k0, len_q, len_k, i;
    int h;
};

void attend(const Problem &p, const Row &row, Truth &truth) {
    const int kv = row.h / (p.heads_q / p.heads_kv);
    const int64_t at = (row.q0 + row.i) * p.heads_q + row.h;
    const float *q = p.q.data() + at * p.d;
    const double scale = p.used_scale();
    const Format &format = format_of(p.dtype);
    const bool rounds_p = p.dtype != VFA_DTYPE_F32;

    std::vector<int64_t> keys;
    std::vector<double> s;
    double magnitude = 0;
    for (int64_t j = 0; j < row.len_k; j++) {
        if (!sees(p, row.i, j, row.len_q, row.len_k)) continue;
        const float *k = p.k.data() + ((row.k0 + j) * p.heads_kv + kv) * p.d;
        double dot = 0, size = 0;
        for (int x = 0; x < p.d; x++) {
            const double product = (double)q[x] * k[x];
            dot += product;
            size += std::fabs(product);
        }
        double logit = scale * dot;
        size *= std::fabs(scale);
        if (p.softcap > 0) logit = p.softcap * std::tanh(logit / p.softcap);
        if (p.alibi) {
            const double bias =
                p.slopes[(size_t)row.h] * (double)std::llabs(row.i + row.len_k - row.len_q - j);
            logit -= bias;
            size += std::fabs(bias);
        }
        keys.push_back(j);
        s.push_back(logit);
        if (std::isfinite(size)) magnitude = std::max(magnitude, size);
    }

    const double sink = p.sinks == Sinks::off ? -kInfinity : p.sink_logits[(size_t)row.h];
    double max = sink;
    bool nan = false;
    for (const double logit : s) {
        nan = nan || std::isnan(logit);
        max = std::max(max, std::isnan(logit) ? max : logit);
    }
    truth.logit[(size_t)at] = magnitude;
    truth.keys[(size_t)at] = (double)keys.size();
    double *o = truth.o.data() + at * p.dv, *recipe = truth.recipe.data() + at * p.dv,
           *sizes = truth.magnitude.data() + at * p.dv;
    if (!nan && max == -kInfinity) { // nothing to see
        truth.lse[(size_t)at] = -kInfinity;
        return; // o is 0 already
    }

    double sum = sink == -kInfinity ? 0 : std::exp(sink - max);
    for (size_t n = 0; n < keys.size(); n++) {
        const float *v = p.v.data() + ((row.k0 + keys[n]) * p.heads_kv + kv) * p.dv;
        const double weight = std::exp(s[n] - max);
        const double rounded_weight = rounds_p ? rounded(weight, format) : weight;
        sum += weight;
        for (int x = 0; x < p.dv; x++) {
            o[x] += weight * v[x];
            recipe[x] += rounded_weight * v[x];
            sizes[x] += weight * std::fabs(v[x]);
        }
    }
    const Format &o_format = format_of(p.o_dtype());
    for (int x = 0; x < p.dv; x++) {
        o[x] /= sum;
        recipe[x] = rounded(recipe[x] / sum, o_format);
        sizes[x] /= sum;
    }
    truth.lse[(size_t)at] = max + std::log(sum);
}

} // namespace

Truth truth_of(const Problem &p) {
    const size_t rows = (size_t)(p.total_q() * p.heads_q), elements = rows * (size_t)p.dv;
    Truth truth{std::vector<double>(elements), std::vector<double>(rows),
                std::vector<double>(elements), std::vector<double>(elements),
                std::vector<double>(rows),     std::vector<double>(rows)};
    int64_t q0 = 0, k0 = 0;
    for (size_t b = 0; b < p.num_seqs(); b++) {
        for (int64_t i = 0; i < p.len_q[b]; i++)
            for (int h = 0; h < p.heads_q; h++)
                attend(p, Row{q0, k0, p.len_q[b], p.len_k[b], i, h}, truth);
        q0 += p.len_q[b];
        k0 += p.len_k[b];
    }
    return truth;
}

// ----------------------------------------------------------------------------------------- judge

namespace {

const char *class_of(double x) {
    return std::isnan(x) ? "NaN" : x == kInfinity ? "inf" : x == -kInfinity ? "-inf" : "finite";
}

// "o[sequence 3, query 5, head 1, dim 7]"
std::string place(const Problem &p, const char *name, size_t row, int x) {
    int64_t token = (int64_t)row / p.heads_q;
    size_t b = 0;
    while (token >= p.len_q[b]) token -= p.len_q[b++];
    char text[160];
    std::snprintf(text, sizeof text, "%s[sequence %zu (%d/%d), query %lld, head %d", name, b,
                  p.len_q[b], p.len_k[b], (long long)token, (int)(row % (size_t)p.heads_q));
    std::string result = text;
    return x < 0 ? result + "]" : result + ", dim " + std::to_string(x) + "]";
}

std::string differs(const std::string &where, double got, double want, double limit) {
    char text[160];
    std::snprintf(text, sizeof text, " is %.9g, but should be %.9g (off by %.3g, limit %.3g)", got,
                  want, std::fabs(got - want), limit);
    return where + text;
}

constexpr double kF32Roundoff = 0x1p-24;

// The contract's limits, relative to the norm (o) and to max(1, |lse|).
double o_limit(vfa_dtype dtype) {
    return dtype == VFA_DTYPE_BF16 ? 4e-3 : dtype == VFA_DTYPE_F16 ? 5e-4 : 2e-6;
}
double lse_limit(vfa_dtype dtype) { return dtype == VFA_DTYPE_F32 ? 1e-5 : 2e-5; }

// How much larger than in ordinary attention the logits are. A dot product in f32 is off by some units
// of 2^-24 * sum |q k|: an absolute error of the logit, which exp makes a relative error of the weight
// and lse has as it is. The contract's limits are for sums up to about 16 (head_dim 256 with normal
// inputs has 10); beyond that the error that f32 cannot avoid grows with the sum.
double excess(double logit) { return std::max(1.0, logit / 16); }

std::string judge_lse(const Problem &p, const Truth &truth, const Result &result) {
    for (size_t row = 0; row < result.lse.size(); row++) {
        const double got = result.lse[row], want = truth.lse[row];
        const double limit =
            lse_limit(p.dtype) * std::max(std::fabs(want), excess(truth.logit[row]));
        if (class_of(got) != class_of(want)) return differs(place(p, "lse", row, -1), got, want, 0);
        if (std::isfinite(want) && !(std::fabs(got - want) <= limit))
            return differs(place(p, "lse", row, -1), got, want, limit);
    }
    return "";
}

// Each element by itself: no single wrong one hides in a norm. With A = sum P |v|:
//   u_out |o|  rounding of o
//   u_p A      rounding of each weight once, if P may be rounded
//   noise A    f32 logits off by a few 2^-24 * sum |q k| (8, as errors of d products add up at random),
//              sums over keys in f32, and exp itself
//   and what lies below the normal numbers: exp may stop at 2^-126 of the row's maximum.
std::string judge_elements(const Problem &p, const Truth &truth, const Result &result) {
    const Format &o_format = format_of(p.o_dtype());
    const double u_out = o_format.roundoff();
    const double u_p = p.dtype == VFA_DTYPE_F32 ? 0 : format_of(p.dtype).roundoff();
    double largest_v = 0;
    for (const float v : p.v)
        if (std::isfinite(v)) largest_v = std::max(largest_v, std::fabs((double)v));
    for (size_t n = 0; n < result.o.size(); n++) {
        const size_t row = n / (size_t)p.dv;
        const double got = result.o[n], want = rounded(truth.o[n], o_format);
        if (class_of(got) != class_of(want))
            return differs(place(p, "o", row, (int)(n % (size_t)p.dv)), got, want, 0);
        if (!std::isfinite(want)) continue;
        const double noise =
            kF32Roundoff * (8 * truth.logit[row] + 4 * std::sqrt(truth.keys[row]) + 16);
        const double limit =
            1.01 * (u_out * std::fabs(truth.o[n]) + (u_p + noise) * truth.magnitude[n]) +
            truth.keys[row] * 0x1p-126 * largest_v + std::ldexp(1, o_format.unit);
        if (!(std::fabs(got - truth.o[n]) <= limit))
            return differs(place(p, "o", row, (int)(n % (size_t)p.dv)), got, truth.o[n], limit);
    }
    return "";
}

// The contract: the norm of the error against the norm of o, and against 1.5 times the error of the
// recipe. Over few elements a norm measures luck (a recipe that happens to be exact), so small cases are
// left to judge_elements.
std::string judge_norms(const Problem &p, const Truth &truth, const Result &result) {
    constexpr size_t kEnough = 256;
    double error = 0, recipe_error = 0, norm = 0, logit = 0;
    size_t elements = 0;
    for (size_t n = 0; n < result.o.size(); n++) {
        const double want = truth.o[n];
        if (!std::isfinite(want) || !std::isfinite(result.o[n])) continue;
        elements++;
        norm += want * want;
        error += (result.o[n] - want) * (result.o[n] - want);
        recipe_error += (truth.recipe[n] - want) * (truth.recipe[n] - want);
        logit = std::max(logit, truth.logit[n / (size_t)p.dv]);
    }
    if (elements < kEnough) return "";
    norm = std::sqrt(norm), error = std::sqrt(error), recipe_error = std::sqrt(recipe_error);
    const double f32 = o_limit(VFA_DTYPE_F32);
    const double limit = (o_limit(p.dtype) + f32 * (excess(logit) - 1)) * norm;
    if (!(error <= limit)) return differs("the norm of o's error", error, 0, limit);
    // The recipe is exact but for its two roundings; a kernel has f32 errors as well.
    const double recipe_limit = 1.5 * recipe_error + f32 * excess(logit) * norm;
    if (p.dtype != VFA_DTYPE_F32 && !(error <= recipe_limit))
        return differs("the norm of o's error, against that of the rounding recipe,", error, 0,
                       recipe_limit);
    return "";
}

} // namespace

std::string judge(const Problem &p, const Truth &truth, const Result &result) {
    if (!result.damage.empty()) return result.damage;
    if (result.o.size() != truth.o.size()) return "o has the wrong size";
    if (std::string wrong = judge_lse(p, truth, result); !wrong.empty()) return wrong;
    if (std::string wrong = judge_elements(p, truth, result); !wrong.empty()) return wrong;
    return judge_norms(p, truth, result);
}

} // namespace conform
