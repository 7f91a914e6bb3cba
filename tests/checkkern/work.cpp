#include "work.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

#include "core/dtype.hpp"
#include "random.hpp"

namespace checkkern {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr char kPattern = 0x5a;

const char *dtype_name(vfa_dtype dtype) {
    return dtype == VFA_DTYPE_BF16 ? "bf16" : dtype == VFA_DTYPE_F16 ? "f16" : "f32";
}

float rounded(float x, vfa_dtype dtype) {
    if (dtype == VFA_DTYPE_BF16) return vfa::bf16_to_float(vfa::float_to_bf16(x));
    if (dtype == VFA_DTYPE_F16) return vfa::f16_to_float(vfa::float_to_f16(x));
    return x;
}

// Half a unit in the last place, relative.
double roundoff(vfa_dtype dtype) {
    return dtype == VFA_DTYPE_BF16 ? 0x1p-8 : dtype == VFA_DTYPE_F16 ? 0x1p-11 : 0x1p-24;
}

void store(char *to, float value, vfa_dtype dtype) {
    const uint16_t half =
        dtype == VFA_DTYPE_BF16 ? vfa::float_to_bf16(value) : vfa::float_to_f16(value);
    if (dtype == VFA_DTYPE_F32)
        std::memcpy(to, &value, 4);
    else
        std::memcpy(to, &half, 2);
}

float load(const char *from, vfa_dtype dtype) {
    float value;
    uint16_t half;
    std::memcpy(&half, from, 2);
    if (dtype == VFA_DTYPE_F32)
        std::memcpy(&value, from, 4);
    else
        value = dtype == VFA_DTYPE_BF16 ? vfa::bf16_to_float(half) : vfa::f16_to_float(half);
    return value;
}

} // namespace

// ---------------------------------------------------------------------------------------- shapes

std::string Shape::text() const {
    static const char *const causals[] = {"", " top_left", " bottom_right"};
    static const char *const fills[] = {"", " large", " tiny", " equal", " one_hot", " special"};
    char text[300];
    std::snprintf(text, sizeof text,
                  "%s%s d=%d dv=%d group=%d queries=%lld keys=%lld rows=%lld..%lld%s window=%d,%d "
                  "scale=%g softcap=%g%s%s%s gap=%lld%s%s",
                  dtype_name(dtype), o_f32 ? " o_f32" : "", head_dim, head_dim_v, group,
                  (long long)num_queries, (long long)num_keys, (long long)row_begin,
                  (long long)row_end, causals[causal], window_left, window_right, (double)scale,
                  (double)softcap, alibi ? " alibi" : "", sinks ? " sinks" : "",
                  lse ? "" : " no_lse", (long long)gap, heads_first ? " heads_first" : "",
                  fills[(int)fill]);
    return text;
}

Shape random_shape(uint64_t seed, vfa_dtype dtype, const Kernels &kernels) {
    Random random(seed);
    const auto one_in = [&](int64_t n) { return random.below(n) == 0; };
    const auto pick = [&](const auto &values) {
        return values[(size_t)random.below((int64_t)std::size(values))];
    };
    static constexpr int32_t dims[] = {1,  2,   3,   4,   5,   7,   8,   9,   15,  16,  17,
                                       24, 31,  32,  33,  40,  48,  63,  64,  65,  72,  80,
                                       96, 100, 112, 127, 128, 129, 160, 192, 200, 255, 256};
    static constexpr int64_t lengths[] = {1,   2,   3,   5,   8,   13,  16,  23,  24,  25,  31,
                                          32,  33,  47,  48,  49,  63,  64,  65,  95,  96,  97,
                                          127, 128, 129, 143, 144, 145, 191, 192, 193, 250, 300};
    static constexpr int32_t groups[] = {1, 1, 1, 2, 3, 4, 7, 8, 12};
    static constexpr int32_t windows[] = {-1, -1, 0, 1, 7, 30, 95, 96, 200, INT32_MAX};
    Shape s;
    s.dtype = dtype;
    s.o_f32 = dtype == VFA_DTYPE_F32 || one_in(4);
    s.head_dim = one_in(3) ? 1 + (int32_t)random.below(256) : pick(dims);
    s.head_dim_v = one_in(2) ? s.head_dim : one_in(3) ? 1 + (int32_t)random.below(256) : pick(dims);
    s.group = pick(groups);
    s.num_queries = one_in(3) ? 1 + random.below(200) : pick(lengths);
    s.num_keys = one_in(20) ? 0 : one_in(3) ? 1 + random.below(400) : pick(lengths);
    s.causal = (vfa_causal)random.below(3);
    if (one_in(2)) {
        s.window_left = pick(windows);
        s.window_right = pick(windows);
    }
    const int64_t all = s.num_queries * s.group;
    const int64_t most =
        std::min(all, kernels.rows_per_call({s.dtype, s.head_dim, s.head_dim_v, s.num_keys}));
    const int64_t rows = one_in(2) ? most : 1 + random.below(most);
    s.row_begin = one_in(2) ? 0 : random.below(all - rows + 1);
    s.row_end = s.row_begin + rows;
    s.scale = one_in(12) ? 0 : one_in(6) ? -0.3f : (float)(1 / std::sqrt((double)s.head_dim));
    s.softcap = one_in(4) ? (one_in(2) ? 30.0f : 2.5f) : 0.0f;
    s.alibi = one_in(4);
    s.sinks = one_in(4);
    s.lse = !one_in(6);
    s.gap = one_in(2) ? 0 : 1 + random.below(20);
    s.heads_first = one_in(4);
    s.fill = (Fill)random.below(6);
    return s;
}

// ------------------------------------------------------------------------------------------ work

// Rows of a tensor as its strides place them, relative to row 0 of head 0.
struct Work::Rows {
    int64_t token, head, dim;
    std::vector<int64_t> offsets; // elements
    int64_t low = 0, high = 0;    // elements that exist

    Rows(const std::vector<int64_t> &tokens, const std::vector<int64_t> &heads, int64_t all_tokens,
         int64_t all_heads, int64_t row_dim, int64_t gap, bool heads_first)
        : dim(row_dim) {
        head = heads_first ? all_tokens * (dim + gap) : dim + gap;
        token = heads_first ? dim + gap : all_heads * (dim + gap) + gap;
        for (size_t n = 0; n < tokens.size(); n++)
            offsets.push_back(tokens[n] * token + heads[n] * head);
        if (offsets.empty()) return;
        low = *std::min_element(offsets.begin(), offsets.end());
        high = *std::max_element(offsets.begin(), offsets.end()) + dim;
    }
    size_t elements() const { return (size_t)(high - low); }
};

namespace {

// The pointer that leads to element 0, which need not exist itself.
void *origin(const Guarded &memory, int64_t low, size_t element_bytes) {
    return reinterpret_cast<void *>(reinterpret_cast<uintptr_t>(memory.data()) -
                                    (uintptr_t)low * element_bytes);
}

} // namespace

Work::Work(const Shape &shape, uint64_t seed, const Kernels &kernels, bool at_end) : shape_(shape) {
    const Shape &s = shape_;
    std::vector<int64_t> tokens, heads, key_heads;
    for (int64_t row = s.row_begin; row < s.row_end; row++) {
        rows_.push_back(row);
        tokens.push_back(row / s.group);
        heads.push_back(row % s.group);
    }
    const vfa::Visible visible = s.visible();
    for (int64_t j = 0; j < s.num_keys; j++) {
        bool seen = false;
        for (int64_t i = s.first_query(); i <= s.last_query() && !seen; i++)
            seen = j >= first_key(visible, i) && j < end_key(visible, i);
        if (seen) keys_.push_back(j);
    }
    key_heads.resize(keys_.size(), 0);

    const size_t bytes = vfa::dtype_bytes(s.dtype), o_bytes = s.o_f32 ? 4 : bytes;
    const Rows q(tokens, heads, s.num_queries, s.group, s.head_dim, s.gap, s.heads_first);
    const Rows k(keys_, key_heads, s.num_keys, 2, s.head_dim, s.gap, s.heads_first);
    const Rows v(keys_, key_heads, s.num_keys, 2, s.head_dim_v, s.gap, s.heads_first);
    const Rows o(tokens, heads, s.num_queries, s.group, s.head_dim_v, s.gap, s.heads_first);
    const Rows lse(tokens, heads, s.num_queries, s.group, 1, s.gap, s.heads_first);
    const size_t scratch_bytes =
        kernels.scratch_bytes({s.dtype, s.head_dim, s.head_dim_v, s.num_keys});

    const auto make = [&](const char *name, size_t count, size_t element, size_t alignment,
                          char filling) {
        memory_.push_back(std::make_unique<Guarded>(name, count * element, at_end, alignment));
        std::memset(memory_.back()->data(), filling, count * element);
        return memory_.size() - 1;
    };
    q_ = make("q", q.elements(), bytes, bytes, (char)0xff); // NaN in every format
    k_ = make("k", k.elements(), bytes, bytes, (char)0xff);
    v_ = make("v", v.elements(), bytes, bytes, (char)0xff);
    o_ = make("o", o.elements(), o_bytes, o_bytes, kPattern);
    lse_ = make("lse", s.lse ? lse.elements() : 0, 4, 4, kPattern);
    scratch_ = make("scratch", scratch_bytes, 1, 64, (char)0xff);

    fill_inputs(seed);
    const auto put = [&](size_t index, const Rows &rows, const std::vector<float> &values) {
        for (size_t n = 0; n < values.size(); n++) {
            const int64_t at =
                rows.offsets[n / (size_t)rows.dim] - rows.low + (int64_t)(n % (size_t)rows.dim);
            store(memory_[index]->data() + (size_t)at * bytes, values[n], s.dtype);
        }
    };
    put(q_, q, q_values_);
    put(k_, k, k_values_);
    put(v_, v, v_values_);

    args_.q = origin(*memory_[q_], q.low, bytes);
    args_.q_token_stride = q.token, args_.q_head_stride = q.head;
    args_.k = origin(*memory_[k_], k.low, bytes);
    args_.k_token_stride = k.token;
    args_.v = origin(*memory_[v_], v.low, bytes);
    args_.v_token_stride = v.token;
    args_.o = origin(*memory_[o_], o.low, o_bytes);
    args_.o_token_stride = o.token, args_.o_head_stride = o.head;
    args_.lse = s.lse ? static_cast<float *>(origin(*memory_[lse_], lse.low, 4)) : nullptr;
    args_.lse_token_stride = lse.token, args_.lse_head_stride = lse.head;
    args_.row_begin = s.row_begin, args_.row_end = s.row_end;
    args_.group = s.group;
    args_.head_dim = s.head_dim, args_.head_dim_v = s.head_dim_v;
    args_.visible = visible;
    args_.scale = s.scale;
    args_.softcap = s.softcap;
    args_.alibi_slopes = slopes_.empty() ? nullptr : slopes_.data();
    args_.alibi_offset = s.num_keys - s.num_queries;
    args_.sinks = sinks_.empty() ? nullptr : sinks_.data();
    args_.o_f32 = s.o_f32;
    args_.scratch = memory_[scratch_]->data();
    // The next call is for prefetching: its memory may be touched by no load and no store.
    next_ = args_;
    char *nowhere = memory_[scratch_]->data() + memory_[scratch_]->size() + 4096;
    if (!at_end) nowhere = memory_[scratch_]->data() - 4096;
    next_.q = next_.k = next_.v = next_.o = nowhere;
    next_.lse = reinterpret_cast<float *>(nowhere);
    args_.next = &next_;

    for (const auto &memory : memory_)
        before_.emplace_back(memory->data(), memory->data() + memory->size());
}

void Work::fill_inputs(uint64_t seed) {
    const Shape &s = shape_;
    Random random(seed ^ 0x5eed);
    const double amp = s.fill == Fill::large ? 12 : s.fill == Fill::tiny ? 1e-3 : 1;
    const auto fill = [&](std::vector<float> &values, size_t rows, int32_t dim, double factor) {
        values.resize(rows * (size_t)dim);
        for (float &value : values) value = rounded((float)(random.normal() * factor), s.dtype);
    };
    fill(q_values_, rows_.size(), s.head_dim, s.fill == Fill::equal ? 0 : amp);
    fill(k_values_, keys_.size(), s.head_dim, amp);
    fill(v_values_, keys_.size(), s.head_dim_v, amp);
    const auto any = [&](std::vector<float> &values) -> float & {
        static float nothing;
        return values.empty() ? nothing : values[(size_t)random.below((int64_t)values.size())];
    };
    if (s.fill == Fill::one_hot && !keys_.empty()) { // one key, far above the others
        const size_t at = (size_t)random.below((int64_t)keys_.size()) * (size_t)s.head_dim;
        for (size_t x = 0; x < (size_t)s.head_dim; x++)
            k_values_[at + x] = rounded(50 * q_values_[x], s.dtype);
    }
    if (s.fill == Fill::special) {
        static constexpr float specials[] = {kNan, kInfinity, -kInfinity, 0, -0.0f, 1e-40f};
        for (std::vector<float> *values : {&q_values_, &k_values_, &v_values_})
            for (int64_t n = random.below(4); n > 0; n--)
                any(*values) = rounded(specials[random.below(6)], s.dtype);
    }
    for (int32_t h = 0; s.alibi && h < s.group; h++)
        slopes_.push_back((float)std::ldexp(random.uniform() + 0.5, (int)-random.below(8)));
    for (int32_t h = 0; s.sinks && h < s.group; h++)
        sinks_.push_back(random.below(4) == 0 ? -kInfinity : (float)(3 * random.normal()));
}

std::string Work::describe(const void *address) const {
    for (const auto &memory : memory_) {
        ptrdiff_t distance = 0;
        if (!memory->guards(address, distance)) continue;
        char text[80];
        std::snprintf(text, sizeof text, "%lld bytes %s %s",
                      (long long)(distance < 0 ? -distance : distance),
                      distance < 0 ? "before" : "behind", memory->name());
        return text;
    }
    return "far from all buffers";
}

std::string Work::run(const Kernels &kernels) {
    std::string wrong = call([&] { kernels.attend[shape_.dtype](args_); },
                             [&](const void *address) { return describe(address); });
    if (!wrong.empty()) return wrong;

    // o and lse: only the call's rows may differ from what they were.
    const size_t o_bytes = shape_.o_f32 ? 4 : vfa::dtype_bytes(shape_.dtype);
    for (const int64_t row : rows_) {
        const int64_t i = row / shape_.group, h = row % shape_.group;
        const auto forgive = [&](size_t index, const void *at, size_t bytes) {
            const size_t offset = (size_t)(static_cast<const char *>(at) - memory_[index]->data());
            std::memcpy(before_[index].data() + offset, at, bytes);
        };
        forgive(o_,
                static_cast<char *>(args_.o) +
                    (i * args_.o_token_stride + h * args_.o_head_stride) * (int64_t)o_bytes,
                (size_t)shape_.head_dim_v * o_bytes);
        if (args_.lse)
            forgive(lse_, args_.lse + i * args_.lse_token_stride + h * args_.lse_head_stride, 4);
    }
    for (size_t n = 0; n < memory_.size(); n++) {
        const Guarded &memory = *memory_[n];
        if (!memory.slack_is_whole()) return std::string("wrote beside ") + memory.name();
        if (n != scratch_ && !std::equal(before_[n].begin(), before_[n].end(), memory.data()))
            return std::string(n == o_ || n == lse_ ? "wrote between the rows of " : "changed ") +
                   memory.name();
    }
    return "";
}

// The definition over the same inputs, out in f32; and with v replaced by its magnitudes, which gives
// A = sum P |v|. For the terms of the limits see judge_elements in tests/conform/oracle.cpp.
Definition Work::definition() const {
    const Shape &s = shape_;
    const size_t rows = rows_.size(), dv = (size_t)s.head_dim_v, d = (size_t)s.head_dim;
    const size_t bytes = vfa::dtype_bytes(s.dtype);
    Definition definition{std::vector<float>(rows * dv), std::vector<float>(rows),
                          std::vector<double>(rows * dv), std::vector<double>(rows)};
    std::vector<float> magnitude(rows * dv);
    std::vector<double> scores((size_t)s.num_keys + 1);
    std::vector<char> v_sizes(memory_[v_]->size());
    for (size_t at = 0; at < v_sizes.size(); at += bytes)
        store(v_sizes.data() + at, std::fabs(load(memory_[v_]->data() + at, s.dtype)), s.dtype);

    AttendArgs args = args_;
    args.next = nullptr;
    args.scratch = scores.data();
    args.o_f32 = true;
    // Row r of the call is at r: queries are group rows apart.
    args.o_token_stride = s.group * s.head_dim_v, args.o_head_stride = s.head_dim_v;
    args.lse_token_stride = s.group, args.lse_head_stride = 1;
    args.o = definition.o.data() - s.row_begin * s.head_dim_v;
    args.lse = definition.lse.data() - s.row_begin;
    vfa::cpu::math_kernels.attend[s.dtype](args);
    args.v = v_sizes.data() + (static_cast<const char *>(args_.v) - memory_[v_]->data());
    args.o = magnitude.data() - s.row_begin * s.head_dim_v;
    args.lse = nullptr;
    vfa::cpu::math_kernels.attend[s.dtype](args);

    const vfa_dtype o_dtype = s.o_f32 ? VFA_DTYPE_F32 : s.dtype;
    const double u_out = roundoff(o_dtype), u_p = s.dtype == VFA_DTYPE_F32 ? 0 : roundoff(s.dtype);
    const double unit = o_dtype == VFA_DTYPE_F16    ? 0x1p-24
                        : o_dtype == VFA_DTYPE_BF16 ? 0x1p-133
                                                    : 0x1p-149;
    double largest_v = 0;
    for (const float value : v_values_)
        if (std::isfinite(value)) largest_v = std::max(largest_v, std::fabs((double)value));
    for (size_t n = 0; n < rows; n++) {
        const int64_t i = rows_[n] / s.group, h = rows_[n] % s.group;
        double logit = 0; // the largest sum of magnitudes that makes a logit
        int64_t seen = 0;
        for (size_t m = 0; m < keys_.size(); m++) {
            const int64_t j = keys_[m];
            if (j < first_key(args_.visible, i) || j >= end_key(args_.visible, i)) continue;
            seen++;
            double size = 0;
            for (size_t x = 0; x < d; x++)
                size += std::fabs((double)q_values_[n * d + x] * k_values_[m * d + x]);
            size *= std::fabs((double)s.scale);
            if (s.alibi)
                size += std::fabs(slopes_[(size_t)h] * (double)(i + args_.alibi_offset - j));
            if (std::isfinite(size)) logit = std::max(logit, size);
        }
        const double noise = 0x1p-24 * (8 * logit + 4 * std::sqrt((double)seen) + 16);
        definition.lse_limit[n] = (s.dtype == VFA_DTYPE_F32 ? 1e-5 : 2e-5) *
                                  std::max({1.0, std::fabs((double)definition.lse[n]), logit / 16});
        for (size_t at = n * dv; at < (n + 1) * dv; at++)
            definition.o_limit[at] = 1.01 * ((u_out + 0x1p-24) * std::fabs(definition.o[at]) +
                                             (u_p + noise) * magnitude[at]) +
                                     (double)seen * 0x1p-126 * largest_v + unit;
    }
    return definition;
}

std::string Work::compare(const Definition &definition) const {
    const Shape &s = shape_;
    const vfa_dtype o_dtype = s.o_f32 ? VFA_DTYPE_F32 : s.dtype;
    const size_t dv = (size_t)s.head_dim_v, o_bytes = vfa::dtype_bytes(o_dtype);
    const auto right = [](float got, float want, double limit) {
        if (std::isnan(want)) return std::isnan(got);
        if (std::isinf(want)) return got == want;
        return std::isfinite(got) && std::fabs((double)got - want) <= limit;
    };
    char text[200];
    for (size_t n = 0; n < rows_.size(); n++) {
        const long long row = rows_[n], i = row / s.group, h = row % s.group;
        if (args_.lse) {
            const float got = args_.lse[i * args_.lse_token_stride + h * args_.lse_head_stride];
            const float want = definition.lse[n];
            if (!right(got, want, definition.lse_limit[n])) {
                std::snprintf(text, sizeof text,
                              "lse of query %lld, head %lld is %.9g, should be %.9g (limit %.3g)",
                              i, h, (double)got, (double)want, definition.lse_limit[n]);
                return text;
            }
        }
        const char *got_row =
            static_cast<const char *>(args_.o) +
            (i * args_.o_token_stride + h * args_.o_head_stride) * (int64_t)o_bytes;
        for (size_t x = 0; x < dv; x++) {
            const float got = load(got_row + x * o_bytes, o_dtype);
            const float want = definition.o[n * dv + x]; // f16 and bf16 may overflow when stored
            if (right(got, std::isinf(rounded(want, o_dtype)) ? rounded(want, o_dtype) : want,
                      definition.o_limit[n * dv + x]))
                continue;
            std::snprintf(
                text, sizeof text,
                "o of query %lld, head %lld, dim %zu is %.9g, should be %.9g (limit %.3g)", i, h, x,
                (double)got, (double)want, definition.o_limit[n * dv + x]);
            return text;
        }
    }
    return "";
}

} // namespace checkkern
