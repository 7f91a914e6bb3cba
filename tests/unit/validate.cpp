// problem/validate: a table of wrong inputs, each with the sentence that it must get.
#include "problem/validate.hpp"

#include "doctest.hpp"

#include <climits>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "core/cpu_count.hpp"

using namespace vfa;

namespace {

const float kNan = std::numeric_limits<float>::quiet_NaN();
const float kInf = std::numeric_limits<float>::infinity();

// Every sentence that a test here has seen.
std::set<std::string> &seen() {
    static std::set<std::string> sentences;
    return sentences;
}

void check_refused(const Status &status, const std::string &sentence) {
    CHECK(status.code == VFA_ERROR_INVALID_ARGUMENT);
    if (status.ok()) return;
    CHECK(drafted_sentence() == sentence);
    seen().insert(drafted_sentence());
}

void check_accepted(const Status &status) { CHECK_MESSAGE(status.ok(), drafted_sentence()); }

vfa_attn_desc good_desc() {
    vfa_attn_desc desc{};
    desc.struct_size = sizeof desc;
    desc.heads_q = 4;
    desc.heads_kv = 2;
    desc.head_dim = 16;
    desc.window_left = desc.window_right = -1;
    return desc;
}

Problem good_problem(const std::function<void(vfa_attn_desc &)> &change = {}) {
    vfa_attn_desc desc = good_desc();
    if (change) change(desc);
    Problem problem{};
    check_accepted(validate_attn(desc, &problem));
    return problem;
}

} // namespace

// ---------------------------------------------------------------------------------- description

TEST_CASE("validate_attn: wrong descriptions") {
    struct {
        void (*change)(vfa_attn_desc &);
        const char *sentence;
    } const table[] = {
        {[](auto &d) { d.backend = (vfa_backend)9; }, "backend is 9, but its values are 0 to 8"},
        {[](auto &d) { d.backend = (vfa_backend)-1; }, "backend is -1, but its values are 0 to 8"},
        {[](auto &d) { d.dtype = (vfa_dtype)3; }, "dtype is 3, but its values are 0 to 2"},
        {[](auto &d) { d.dtype = VFA_DTYPE_FORCE_INT32; },
         "dtype is -2147483648, but its values are 0 to 2"},
        {[](auto &d) { d.o_f32 = 2; }, "o_f32 is 2, but must be 0 to 1"},
        {[](auto &d) { d.heads_q = 0; }, "heads_q is 0, but must be 1 to 65536"},
        {[](auto &d) { d.heads_q = 65538; }, "heads_q is 65538, but must be 1 to 65536"},
        {[](auto &d) { d.heads_q = UINT32_MAX; }, "heads_q is 4294967295, but must be 1 to 65536"},
        {[](auto &d) { d.heads_kv = 0; }, "heads_kv is 0, but must be 1 to 65536"},
        {[](auto &d) { d.heads_kv = 65537; }, "heads_kv is 65537, but must be 1 to 65536"},
        {[](auto &d) { d.heads_kv = 3; }, "heads_q = 4 is not a multiple of heads_kv = 3"},
        {[](auto &d) { d.heads_kv = 8; }, "heads_q = 4 is not a multiple of heads_kv = 8"},
        {[](auto &d) { d.head_dim = 0; }, "head_dim is 0, but must be 1 to 256"},
        {[](auto &d) { d.head_dim = 257; }, "head_dim is 257, but must be 1 to 256"},
        {[](auto &d) { d.head_dim_v = 257; }, "head_dim_v is 257, but must be 0 to 256"},
        {[](auto &d) { d.scale_mode = (vfa_scale_mode)2; },
         "scale_mode is 2, but its values are 0 to 1"},
        {[](auto &d) { d.scale = 1; },
         "scale is 1, but scale_mode is VFA_SCALE_DEFAULT: set VFA_SCALE_GIVEN"},
        {[](auto &d) { d.scale_mode = VFA_SCALE_GIVEN, d.scale = kNan; },
         "scale is nan, but must be finite"},
        {[](auto &d) { d.scale_mode = VFA_SCALE_GIVEN, d.scale = -kInf; },
         "scale is -inf, but must be finite"},
        {[](auto &d) { d.softcap = -1; },
         "softcap is -1, but must be 0 (off) or positive and finite"},
        {[](auto &d) { d.softcap = kNan; },
         "softcap is nan, but must be 0 (off) or positive and finite"},
        {[](auto &d) { d.softcap = kInf; },
         "softcap is inf, but must be 0 (off) or positive and finite"},
        {[](auto &d) { d.causal = (vfa_causal)3; }, "causal is 3, but its values are 0 to 2"},
        {[](auto &d) { d.window_left = -2; }, "window_left is -2, but must be at least -1"},
        {[](auto &d) { d.window_right = INT32_MIN; },
         "window_right is -2147483648, but must be at least -1"},
        {[](auto &d) { d.max_seqlen_q = -1; }, "max_seqlen_q is -1, but must be at least 0"},
        {[](auto &d) { d.max_seqlen_k = -7; }, "max_seqlen_k is -7, but must be at least 0"},
        {[](auto &d) { d.reserve_seqs = -1; }, "reserve_seqs is -1, but must be at least 0"},
        {[](auto &d) { d.reserve_seqs = (int64_t)1 << 31; },
         "reserve_seqs is 2147483648, but must be below 2^31"},
        {[](auto &d) { d.q_token_stride = -1; },
         "q_token_stride is -1, but must be 0 (packed) to 2^56"},
        {[](auto &d) { d.q_head_stride = -1; },
         "q_head_stride is -1, but must be 0 (packed) to 2^56"},
        {[](auto &d) { d.k_token_stride = INT64_MIN; },
         "k_token_stride is -9223372036854775808, but must be 0 (packed) to 2^56"},
        {[](auto &d) { d.k_head_stride = INT64_MAX; },
         "k_head_stride is 9223372036854775807, but must be 0 (packed) to 2^56"},
        {[](auto &d) { d.v_token_stride = -5; },
         "v_token_stride is -5, but must be 0 (packed) to 2^56"},
        {[](auto &d) { d.v_head_stride = -5; },
         "v_head_stride is -5, but must be 0 (packed) to 2^56"},
        {[](auto &d) { d.o_token_stride = -5; },
         "o_token_stride is -5, but must be 0 (packed) to 2^56"},
        {[](auto &d) { d.o_head_stride = ((int64_t)1 << 56) + 1; },
         "o_head_stride is 72057594037927937, but must be 0 (packed) to 2^56"},
        {[](auto &d) { d.lse_token_stride = -5; },
         "lse_token_stride is -5, but must be 0 (packed) to 2^56"},
        {[](auto &d) { d.lse_head_stride = -5; },
         "lse_head_stride is -5, but must be 0 (packed) to 2^56"},
    };
    for (const auto &row : table) {
        CAPTURE(row.sentence);
        vfa_attn_desc desc = good_desc();
        row.change(desc);
        Problem problem{};
        problem.head_dim = -77;
        check_refused(validate_attn(desc, &problem), row.sentence);
        CHECK(problem.head_dim == -77); // nothing is written before the checks
    }
}

TEST_CASE("validate_attn: the edges of what is right") {
    void (*const changes[])(vfa_attn_desc &) = {
        [](auto &d) { d.backend = VFA_BACKEND_VARLEN; },
        [](auto &d) { d.dtype = VFA_DTYPE_F32; },
        [](auto &d) { d.o_f32 = 1; },
        [](auto &d) { d.heads_q = d.heads_kv = 65536; },
        [](auto &d) { d.heads_kv = 1; },
        [](auto &d) { d.head_dim = 1; },
        [](auto &d) { d.head_dim = d.head_dim_v = 256; },
        [](auto &d) { d.scale_mode = VFA_SCALE_GIVEN; },
        [](auto &d) { d.scale_mode = VFA_SCALE_GIVEN, d.scale = -1e30f; },
        [](auto &d) { d.softcap = 1e-30f; },
        [](auto &d) { d.causal = VFA_CAUSAL_BOTTOM_RIGHT; },
        [](auto &d) { d.window_left = 0, d.window_right = INT32_MAX; },
        [](auto &d) { d.max_seqlen_q = INT32_MAX; },
        [](auto &d) { d.reserve_seqs = INT32_MAX; },
        [](auto &d) { d.q_token_stride = (int64_t)1 << 56; },
    };
    for (const auto change : changes) {
        vfa_attn_desc desc = good_desc();
        change(desc);
        Problem problem{};
        check_accepted(validate_attn(desc, &problem));
    }
}

TEST_CASE("validate_attn: defaults are filled in") {
    const Problem packed = good_problem([](auto &d) { d.head_dim_v = 24; });
    CHECK(packed.group == 2);
    CHECK(packed.scale == 0.25f);
    CHECK_FALSE(packed.o_f32);
    CHECK(packed.head_dim_v == 24);
    CHECK((packed.q.head == 16 && packed.q.token == 4 * 16));
    CHECK((packed.k.head == 16 && packed.k.token == 2 * 16));
    CHECK((packed.v.head == 24 && packed.v.token == 2 * 24));
    CHECK((packed.o.head == 24 && packed.o.token == 4 * 24));
    CHECK((packed.lse.head == 1 && packed.lse.token == 4));

    const Problem given = good_problem([](auto &d) {
        d.dtype = VFA_DTYPE_F32;
        d.scale_mode = VFA_SCALE_GIVEN;
        d.scale = 0;
        d.q_token_stride = 1000;
        d.k_head_stride = 20;
        d.lse_token_stride = 1;
        d.lse_head_stride = 50;
    });
    CHECK(given.o_f32);
    CHECK(given.scale == 0);
    CHECK(given.head_dim_v == 16);
    CHECK((given.q.head == 16 && given.q.token == 1000));
    CHECK((given.k.head == 20 && given.k.token == 40)); // heads times the head stride
    CHECK((given.lse.head == 50 && given.lse.token == 1));
}

// ------------------------------------------------------------------------------------- lengths

namespace {

using Ints = std::vector<int32_t>;

struct Arrays {
    Ints cu_q, cu_k, used_q, used_k;
    LengthArrays spans() const {
        return {std::span(cu_q), std::span(cu_k), std::span(used_q), std::span(used_k)};
    }
};

} // namespace

TEST_CASE("validate_lengths: wrong lengths") {
    const struct {
        Arrays arrays;
        const char *sentence;
        void (*change)(vfa_attn_desc &) = [](vfa_attn_desc &) {};
    } table[] = {
        {{{0, 1}, {0, 1, 2}, {}, {}},
         "cu_seqlens_q_len is 2, but cu_seqlens_k_len is 3: both are num_seqs + 1"},
        {{{0}, {}, {}, {}},
         "cu_seqlens_q_len is 1, but cu_seqlens_k_len is 0: both are num_seqs + 1"},
        {{{1, 5}, {0, 5}, {}, {}}, "cu_seqlens_q[0] = 1, but must be 0"},
        {{{0, 5}, {-3, 5}, {}, {}}, "cu_seqlens_k[0] = -3, but must be 0"},
        {{{0, 5, 9, 7}, {0, 5, 9, 9}, {}, {}}, "cu_seqlens_q[3] = 7 is below cu_seqlens_q[2] = 9"},
        {{{0, 5, 9}, {0, INT32_MAX, INT32_MIN}, {}, {}},
         "cu_seqlens_k[2] = -2147483648 is below cu_seqlens_k[1] = 2147483647"},
        {{{0, 5, 9}, {0, 5, 9}, {5}, {}}, "seqused_q_len is 1, but there are 2 sequences"},
        {{{0, 5, 9}, {0, 5, 9}, {}, {5, 4, 0}}, "seqused_k_len is 3, but there are 2 sequences"},
        {{{}, {}, {}, {5}}, "seqused_k_len is 1, but there are 0 sequences"},
        {{{0, 5, 9}, {0, 5, 9}, {5, 5}, {}},
         "seqused_q[1] = 5, but must be 0 to 4 (cu_seqlens_q[2] = 9 less cu_seqlens_q[1] = 5)"},
        {{{0, 5, 9}, {0, 5, 9}, {}, {-1, 4}},
         "seqused_k[0] = -1, but must be 0 to 5 (cu_seqlens_k[1] = 5 less cu_seqlens_k[0] = 0)"},
        {{{0, 5, 9}, {0, 5, 9}, {}, {}},
         "max_seqlen_q is 4, but sequence 0 has 5 rows",
         [](auto &d) { d.max_seqlen_q = 4; }},
        {{{0, 5, 12}, {0, 5, 12}, {}, {5, 6}},
         "max_seqlen_k is 5, but sequence 1 has 6 rows",
         [](auto &d) { d.max_seqlen_k = 5; }},
        {{{0, 5}, {0, 5}, {}, {}},
         "o_token_stride = 63 and o_head_stride = 16 make rows of o overlap "
         "(5 tokens, 4 heads, 16 elements a row)",
         [](auto &d) { d.o_token_stride = 63; }},
        {{{0, 5}, {0, 5}, {}, {}},
         "o_token_stride = 60 and o_head_stride = 15 make rows of o overlap "
         "(5 tokens, 4 heads, 16 elements a row)",
         [](auto &d) { d.o_head_stride = 15; }},
        {{{0, 5}, {0, 5}, {}, {}}, // [heads, total_q, dim], but the heads are one row too close
         "o_token_stride = 16 and o_head_stride = 64 make rows of o overlap "
         "(5 tokens, 4 heads, 16 elements a row)",
         [](auto &d) { d.o_token_stride = 16, d.o_head_stride = 64; }},
        {{{0, 5}, {0, 5}, {}, {}},
         "lse_token_stride = 1 and lse_head_stride = 4 make rows of lse overlap "
         "(5 tokens, 4 heads, 1 elements a row)",
         [](auto &d) { d.lse_token_stride = 1, d.lse_head_stride = 4; }},
    };
    for (const auto &row : table) {
        CAPTURE(row.sentence);
        const Problem problem = good_problem(row.change);
        check_refused(validate_lengths(problem, row.arrays.spans()), row.sentence);
    }
}

TEST_CASE("validate_lengths: NULL with a length, and lengths beyond 2^31") {
    const Problem problem = good_problem();
    const Ints two = {0, 1};
    const std::span<const int32_t> none((const int32_t *)nullptr, 2);
    check_refused(validate_lengths(problem, {none, two, {}, {}}),
                  "cu_seqlens_q is NULL, but cu_seqlens_q_len is 2");
    check_refused(validate_lengths(problem, {two, none, {}, {}}),
                  "cu_seqlens_k is NULL, but cu_seqlens_k_len is 2");
    check_refused(validate_lengths(problem, {two, two, none, {}}),
                  "seqused_q is NULL, but seqused_q_len is 2");
    check_refused(validate_lengths(problem, {two, two, {}, none}),
                  "seqused_k is NULL, but seqused_k_len is 2");
    // Only the count is looked at: the memory behind it does not exist.
    const std::span<const int32_t> huge(two.data(), (size_t)1 << 31);
    check_refused(validate_lengths(problem, {huge, huge, {}, {}}),
                  "cu_seqlens_q_len is 2147483648, but must be below 2^31");
}

TEST_CASE("validate_lengths: right lengths") {
    const struct {
        Arrays arrays;
        void (*change)(vfa_attn_desc &) = [](vfa_attn_desc &) {};
    } table[] = {
        {{{}, {}, {}, {}}},
        {{{0}, {0}, {}, {}}},
        {{{0, 0, 0}, {0, 0, 0}, {}, {}}},
        {{{0, 0, 4}, {0, 7, 7}, {0, 3}, {7, 0}}},
        {{{0, INT32_MAX}, {0, INT32_MAX}, {}, {}}},
        {{{0, 5, 12}, {0, 5, 12}, {5, 5}, {}}, [](auto &d) { d.max_seqlen_q = 5; }},
        {{{0, 5}, {0, 9}, {}, {}}, [](auto &d) { d.max_seqlen_q = 5, d.max_seqlen_k = 9; }},
        {{{0, 5}, {0, 5}, {}, {}}, [](auto &d) { d.o_token_stride = 16, d.o_head_stride = 80; }},
        {{{0, 5}, {0, 5}, {}, {}}, [](auto &d) { d.lse_token_stride = 1, d.lse_head_stride = 5; }},
        {{{0, 5}, {0, 5}, {}, {}}, [](auto &d) { d.k_token_stride = 1; }}, // inputs may overlap
        {{{0, 1}, {0, 1}, {}, {}},
         [](auto &d) { d.o_token_stride = 1; }}, // one token, no neighbour
    };
    for (const auto &row : table) {
        const Problem problem = good_problem(row.change);
        check_accepted(validate_lengths(problem, row.arrays.spans()));
    }
}

// ----------------------------------------------------------------------------- slopes and sinks

TEST_CASE("validate_alibi and validate_sinks") {
    const Problem problem = good_problem();
    const std::vector<float> good = {0, -1, 2, 1e30f};
    check_accepted(validate_alibi(problem, good.data(), 4));
    check_accepted(validate_sinks(problem, good.data(), 4));
    check_refused(validate_alibi(problem, nullptr, 4), "slopes is NULL");
    check_refused(validate_sinks(problem, nullptr, 0), "sinks is NULL");
    check_refused(validate_alibi(problem, good.data(), 3),
                  "slopes_len is 3, but there are 4 q heads");
    check_refused(validate_sinks(problem, good.data(), 5),
                  "sinks_len is 5, but there are 4 q heads");
    const auto with = [&](float value) {
        std::vector<float> values = good;
        values[2] = value;
        return values;
    };
    check_refused(validate_alibi(problem, with(kNan).data(), 4),
                  "slopes[2] = nan, but must be finite");
    check_refused(validate_alibi(problem, with(-kInf).data(), 4),
                  "slopes[2] = -inf, but must be finite");
    check_refused(validate_sinks(problem, with(kNan).data(), 4),
                  "sinks[2] = nan, but must be finite or -infinity");
    check_refused(validate_sinks(problem, with(kInf).data(), 4),
                  "sinks[2] = inf, but must be finite or -infinity");
    check_accepted(validate_sinks(problem, with(-kInf).data(), 4));
}

// ------------------------------------------------------------------------------------- context

TEST_CASE("validate_context") {
    const char *const isas[] = {"portable", "avx2"};
    const auto refused = [&](void (*change)(vfa_context_desc &, vfa_hooks &),
                             const char *sentence) {
        CAPTURE(sentence);
        vfa_context_desc desc{};
        vfa_hooks hooks{};
        change(desc, hooks);
        ContextOptions options{};
        options.threads = 77;
        check_refused(validate_context(desc, &hooks, isas, &options), sentence);
        CHECK(options.threads == 77);
    };
    static const auto alloc = [](void *, size_t, size_t) -> void * { return nullptr; };
    static const auto free = [](void *, void *, size_t) {};
    static const auto parallel = [](void *, uint32_t, void (*)(void *, uint32_t, uint32_t),
                                    void *) {};

    refused([](auto &d, auto &) { d.num_threads = 4097; },
            "num_threads is 4097, but must be 0 to 4096");
    refused([](auto &d, auto &) { d.log_level = (vfa_log_level)4; },
            "log_level is 4, but its values are 0 to 3");
    refused([](auto &d, auto &) { d.device = -1; }, "device is -1, but must be at least 0");
    refused([](auto &d, auto &) { std::memset(d.max_isa, 'x', sizeof d.max_isa); },
            "max_isa has no terminating zero in its 32 bytes");
    refused([](auto &d, auto &) { std::strcpy(d.max_isa, "sse9"); },
            "max_isa is \"sse9\", but the instruction sets are: portable avx2");
    refused([](auto &, auto &h) { h.alloc = alloc; },
            "hooks.free is NULL, but hooks.alloc is not: give both or neither");
    refused([](auto &, auto &h) { h.free = free; },
            "hooks.alloc is NULL, but hooks.free is not: give both or neither");
    refused([](auto &, auto &h) { h.parallel = parallel; },
            "hooks.max_workers is 0, but must be 1 to 4096");
    refused([](auto &, auto &h) { h.parallel = parallel, h.max_workers = 4097; },
            "hooks.max_workers is 4097, but must be 1 to 4096");
    refused([](auto &, auto &h) { h.max_workers = 3; },
            "hooks.max_workers is 3, but hooks.parallel is NULL");

    vfa_context_desc desc{};
    ContextOptions options{};
    check_accepted(validate_context(desc, nullptr, isas, &options));
    CHECK(options.threads == allowed_cpus());
    CHECK(options.isa_cap == 1);
    CHECK(!options.hooks.alloc);
    desc.num_threads = 4096; // never more than the process may use
    std::strcpy(desc.max_isa, "portable");
    vfa_hooks hooks{};
    hooks.parallel = parallel;
    hooks.max_workers = 4096;
    check_accepted(validate_context(desc, &hooks, isas, &options));
    CHECK(options.threads == allowed_cpus());
    CHECK(options.isa_cap == 0);
    CHECK(options.hooks.max_workers == 4096);
}

// ------------------------------------------------------------------------------------- buffers

namespace {

// Buffers for two tokens of q and three of k, one after the other in one block, with room between.
struct Call {
    Lengths lengths{std::pmr::get_default_resource()};
    std::vector<float> block = std::vector<float>(4000);
    HostTensors tensors;

    explicit Call(const Problem &problem, ForwardKind kind = ForwardKind::half) {
        const Ints cu_q = {0, 2}, cu_k = {0, 3};
        lengths.reserve(1);
        lengths.assign({cu_q, cu_k, {}, {}});
        const size_t q = 2u * 4 * 16, k = 3u * 2 * 16;
        char *at = reinterpret_cast<char *>(block.data());
        tensors = {kind, at, q, at + 2000, k, at + 4000, k, at + 6000, q, (float *)(at + 8000), 8};
        check_accepted(validate_tensors(problem, lengths, tensors));
    }
};

} // namespace

TEST_CASE("validate_tensors: lengths and pointers") {
    const Problem problem = good_problem();
    const struct {
        void (*change)(HostTensors &);
        const char *sentence;
    } table[] = {
        {[](auto &t) { t.q = nullptr; }, "q is NULL, but q_len is 128"},
        {[](auto &t) { t.k = nullptr; }, "k is NULL, but k_len is 96"},
        {[](auto &t) { t.v = nullptr; }, "v is NULL, but v_len is 96"},
        {[](auto &t) { t.o = nullptr; }, "o is NULL, but o_len is 128"},
        {[](auto &t) { t.lse = nullptr; }, "lse is NULL, but lse_len is 8"},
        {[](auto &t) { t.q_len--; },
         "q_len is 127, but the plan needs 128 (2 tokens x 4 heads x 16, strides 64 and 16)"},
        {[](auto &t) { t.q = nullptr, t.q_len = 0; },
         "q_len is 0, but the plan needs 128 (2 tokens x 4 heads x 16, strides 64 and 16)"},
        {[](auto &t) { t.k_len--; },
         "k_len is 95, but the plan needs 96 (3 tokens x 2 heads x 16, strides 32 and 16)"},
        {[](auto &t) { t.v_len--; },
         "v_len is 95, but the plan needs 96 (3 tokens x 2 heads x 16, strides 32 and 16)"},
        {[](auto &t) { t.o_len--; },
         "o_len is 127, but the plan needs 128 (2 tokens x 4 heads x 16, strides 64 and 16)"},
        {[](auto &t) { t.lse_len--; },
         "lse_len is 7, but the plan needs 8 (2 tokens x 4 heads x 1, strides 4 and 1)"},
        {[](auto &t) { t.q_len = SIZE_MAX; },
         "q_len is 18446744073709551615, more elements than memory can hold"},
        {[](auto &t) { t.lse_len = SIZE_MAX / 8 + 1; },
         "lse_len is 2305843009213693952, more elements than memory can hold"},
        // Both are outputs; inputs may share memory.
        {[](auto &t) { t.o = const_cast<void *>(t.q); },
         "o and q share memory: q begins 0 bytes after o"},
        {[](auto &t) { t.o = (char *)const_cast<void *>(t.k) + 2; },
         "o and k share memory: k begins -2 bytes after o"},
        {[](auto &t) { t.o = (char *)const_cast<void *>(t.v) - 254; },
         "o and v share memory: v begins 254 bytes after o"},
        {[](auto &t) { t.lse = (float *)t.q; },
         "lse and q share memory: q begins 0 bytes after lse"},
        {[](auto &t) { t.lse = (float *)t.k + 1; },
         "lse and k share memory: k begins -4 bytes after lse"},
        {[](auto &t) { t.lse = (float *)t.v - 7; },
         "lse and v share memory: v begins 28 bytes after lse"},
        {[](auto &t) { t.lse = (float *)t.o + 63; },
         "o and lse share memory: lse begins 252 bytes after o"},
    };
    for (const auto &row : table) {
        CAPTURE(row.sentence);
        Call call(problem);
        row.change(call.tensors);
        check_refused(validate_tensors(problem, call.lengths, call.tensors), row.sentence);
    }

    void (*const right[])(HostTensors &) = {
        [](auto &t) { t.lse = nullptr, t.lse_len = 0; },
        [](auto &t) { t.q_len += 100; },
        [](auto &t) { t.k = t.v; },
        [](auto &t) { t.o = (char *)const_cast<void *>(t.v) + 192; },  // right behind it
        [](auto &t) { t.lse = (float *)const_cast<void *>(t.q) - 8; }, // right before it
        [](auto &t) { t.lse = nullptr, t.lse_len = 0, t.o = (char *)t.o + 2000; },
    };
    for (const auto change : right) {
        Call call(problem);
        change(call.tensors);
        check_accepted(validate_tensors(problem, call.lengths, call.tensors));
    }
}

TEST_CASE("validate_tensors: the function must fit the plan") {
    const struct {
        vfa_dtype dtype;
        uint32_t o_f32;
        ForwardKind right;
        ForwardKind wrong;
        const char *sentence;
    } table[] = {
        {VFA_DTYPE_BF16, 0, ForwardKind::half, ForwardKind::f32,
         "vfa_forward_host_f32 was called, but the plan has dtype bf16 and bf16 o: call "
         "vfa_forward_host"},
        {VFA_DTYPE_BF16, 0, ForwardKind::half, ForwardKind::half_o_f32,
         "vfa_forward_host_o_f32 was called, but the plan has dtype bf16 and bf16 o: call "
         "vfa_forward_host"},
        {VFA_DTYPE_F16, 1, ForwardKind::half_o_f32, ForwardKind::half,
         "vfa_forward_host was called, but the plan has dtype f16 and f32 o: call "
         "vfa_forward_host_o_f32"},
        {VFA_DTYPE_F32, 0, ForwardKind::f32, ForwardKind::half,
         "vfa_forward_host was called, but the plan has dtype f32 and f32 o: call "
         "vfa_forward_host_f32"},
        {VFA_DTYPE_F32, 1, ForwardKind::f32, ForwardKind::half_o_f32,
         "vfa_forward_host_o_f32 was called, but the plan has dtype f32 and f32 o: call "
         "vfa_forward_host_f32"},
    };
    for (const auto &row : table) {
        CAPTURE(row.sentence);
        const Problem problem = good_problem([&](vfa_attn_desc &d) {
            d.dtype = row.dtype;
            d.o_f32 = row.o_f32;
        });
        Call call(problem, row.right);
        call.tensors.kind = row.wrong;
        check_refused(validate_tensors(problem, call.lengths, call.tensors), row.sentence);
    }
}

TEST_CASE("validate_tensors: strides beyond memory, and outputs inside a fused buffer") {
    const Problem wide = good_problem([](auto &d) { d.q_token_stride = (int64_t)1 << 56; });
    Lengths lengths(std::pmr::get_default_resource());
    const Ints cu_q = {0, 1000}, cu_k = {0, 0};
    lengths.reserve(1);
    lengths.assign({cu_q, cu_k, {}, {}});
    std::vector<float> block(1);
    HostTensors tensors = {
        ForwardKind::half, block.data(), 1, nullptr, 0, nullptr, 0, block.data(), 1, nullptr, 0};
    check_refused(validate_tensors(wide, lengths, tensors),
                  "q_len is 1, but the plan's strides span more than 2^63 elements");

    // q, k, v and o side by side in [tokens, 5 x 64]: no element is shared.
    const int64_t step = 5 * 64;
    const Problem fused = good_problem([](auto &d) {
        d.heads_kv = 4;
        d.q_token_stride = d.k_token_stride = d.v_token_stride = d.o_token_stride = step;
    });
    const Ints cu = {0, 3};
    lengths.assign({cu, cu, {}, {}});
    std::vector<uint16_t> buffer((size_t)(3 * step));
    const size_t len = (size_t)(2 * step + 64);
    tensors = {ForwardKind::half,
               buffer.data(),
               len,
               buffer.data() + 64,
               len,
               buffer.data() + 128,
               len,
               buffer.data() + 192,
               len,
               nullptr,
               0};
    check_accepted(validate_tensors(fused, lengths, tensors));
    tensors.o = buffer.data() + 191; // the last element of v
    check_refused(validate_tensors(fused, lengths, tensors),
                  "o and v share memory: v begins -126 bytes after o");
    tensors.o = buffer.data() + 256; // the last of them: nothing wraps around
    check_accepted(validate_tensors(fused, lengths, tensors));
}

TEST_CASE("validate_tensors: q and o take turns in one buffer") {
    // [2] of q and o at each place of [tokens 3, heads 4, dim 16].
    struct {
        const char *layout;
        int64_t token, head, o_first;
        bool apart;
    } const table[] = {
        {"[tokens, 2, heads, dim]", 128, 16, 64, true},
        {"[tokens, heads, 2, dim]", 128, 32, 16, true},
        {"[heads, 2, tokens, dim]", 16, 96, 48, true},
        {"[heads, tokens, 2, dim]", 32, 96, 16, true},
        {"one element too early", 128, 32, 15, false},
        {"one element too late", 128, 32, 17, false},
        {"rows in turns, with o in a row of q", 32, 96, 32, false},
    };
    for (const auto &row : table) {
        CAPTURE(row.layout);
        const Problem problem = good_problem([&](auto &d) {
            d.q_token_stride = d.o_token_stride = row.token;
            d.q_head_stride = d.o_head_stride = row.head;
        });
        Lengths lengths(std::pmr::get_default_resource());
        const Ints cu = {0, 3};
        lengths.reserve(1);
        lengths.assign({cu, cu, {}, {}});
        std::vector<uint16_t> both(1000), k(96), v(96);
        const HostTensors tensors = {
            ForwardKind::half,         both.data(), 400,     k.data(), 96, v.data(), 96,
            both.data() + row.o_first, 400,         nullptr, 0};
        if (row.apart)
            check_accepted(validate_tensors(problem, lengths, tensors));
        else
            CHECK(validate_tensors(problem, lengths, tensors).code == VFA_ERROR_INVALID_ARGUMENT);
    }
}

TEST_CASE("validate: small helpers") {
    int x = 0;
    check_accepted(validate_pointer("plan", &x));
    check_refused(validate_pointer("plan", nullptr), "plan is NULL");
    check_accepted(validate_array("q", nullptr, 0));
    check_accepted(validate_array("q", &x, 0));
    check_refused(validate_array("q", nullptr, 3), "q is NULL, but q_len is 3");
}

TEST_CASE("validate_half") {
    check_accepted(validate_half(VFA_DTYPE_BF16));
    check_accepted(validate_half(VFA_DTYPE_F16));
    check_refused(validate_half(VFA_DTYPE_F32),
                  "dtype is VFA_DTYPE_F32: call vfa_varlen_forward_f32");
    check_refused(validate_half((vfa_dtype)7), "dtype is 7, but its values are 0 to 2");
}

TEST_CASE("validate_query") {
    check_accepted(validate_query(VFA_BACKEND_CPU, 0));
    check_accepted(validate_query(VFA_BACKEND_VARLEN, 3));
    check_accepted(validate_query(VFA_BACKEND_FLASH_ATTENTION, 3));
    check_refused(validate_query(VFA_BACKEND_MATH, 1),
                  "device is 1, but backends on the CPU take 0 only");
    check_refused(validate_query(VFA_BACKEND_CUDNN, -1), "device is -1, but must be at least 0");
    check_refused(validate_query((vfa_backend)99, 0), "backend is 99, but its values are 0 to 8");
}

// ------------------------------------------------------------------------------- nothing left out

// Must be the last case of this file: each sentence of validate.cpp was seen above.
TEST_CASE("validate: every sentence of the source is tested") {
    std::ifstream file(VFA_VALIDATE_CPP);
    REQUIRE_MESSAGE(file, "cannot read " VFA_VALIDATE_CPP);
    std::stringstream text;
    text << file.rdbuf();
    const std::string source = text.str();

    const auto matched = [](const std::string &format) {
        std::string pattern;
        for (size_t i = 0; i < format.size(); i++) {
            if (format[i] == '%') {
                while (!std::isalpha((unsigned char)format[++i]) || std::strchr("lzh", format[i])) {
                }
                pattern += ".*";
            } else if (format[i] == '\\') {
                pattern += format[++i];
            } else {
                if (std::strchr("()[]{}.*+?^$|", format[i])) pattern += '\\';
                pattern += format[i];
            }
        }
        const std::regex regex(pattern);
        for (const std::string &sentence : seen())
            if (std::regex_match(sentence, regex)) return true;
        return false;
    };

    // fail(code, "..." "...", arguments)
    const std::regex call(R"re(fail\(\s*\w+,\s*((?:"(?:[^"\\]|\\.)*"\s*)+))re");
    const std::regex literal(R"re("((?:[^"\\]|\\.)*)")re");
    int calls = 0;
    for (std::sregex_iterator it(source.begin(), source.end(), call), end; it != end; ++it) {
        const std::string literals = (*it)[1];
        std::string format;
        for (std::sregex_iterator part(literals.begin(), literals.end(), literal); part != end;
             ++part)
            format += (*part)[1];
        calls++;
        CHECK_MESSAGE(matched(format), "no test sees this sentence: ", format);
    }
    size_t mentions = 0; // the pattern above found all of them
    for (size_t at = source.find("fail("); at != std::string::npos;
         at = source.find("fail(", at + 1))
        mentions++;
    CHECK(calls == (int)mentions);
    CHECK(calls > 20);
}
