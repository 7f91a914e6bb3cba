// The bits of a sequence depend on that sequence, the options and the kernel alone; and what changes the
// mathematics in no way changes results by rounding at most.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <thread>

#include "numbers.hpp"
#include "properties.hpp"

using namespace conform;

namespace {

// The sequences of several problems with the same options, as one batch.
Problem batch_of(const std::vector<const Problem *> &parts) {
    Problem all = *parts[0];
    for (std::vector<float> *values : {&all.q, &all.k, &all.v}) values->clear();
    all.len_q.clear();
    all.len_k.clear();
    for (const Problem *part : parts) {
        all.len_q.insert(all.len_q.end(), part->len_q.begin(), part->len_q.end());
        all.len_k.insert(all.len_k.end(), part->len_k.begin(), part->len_k.end());
        all.q.insert(all.q.end(), part->q.begin(), part->q.end());
        all.k.insert(all.k.end(), part->k.begin(), part->k.end());
        all.v.insert(all.v.end(), part->v.begin(), part->v.end());
    }
    return all;
}

// Sequence b out of a batch's result.
Result sequence_of(const Problem &p, const Result &result, size_t b) {
    const size_t first =
        (size_t)std::accumulate(p.len_q.begin(), p.len_q.begin() + (ptrdiff_t)b, (int64_t)0) *
        (size_t)p.heads_q;
    const size_t rows = (size_t)p.len_q[b] * (size_t)p.heads_q, dv = (size_t)p.dv;
    const auto part = [](const std::vector<float> &values, size_t begin, size_t count) {
        return std::vector<float>(values.begin() + (ptrdiff_t)begin,
                                  values.begin() + (ptrdiff_t)(begin + count));
    };
    Result one;
    one.o = part(result.o, first * dv, rows * dv);
    one.lse = part(result.lse, first, rows);
    return one;
}

const std::string kOptions[] = {
    "hq=4 hkv=2 d=40 dv=24 causal=bottom_right",
    "hq=3 hkv=1 d=64",
    "hq=2 hkv=2 d=17 causal=top_left window=50,-1 softcap=20 alibi sink",
    "hq=4 hkv=2 d=72 window=30,20 scale=-0.2 o_f32",
};

Problem alone(const std::string &options, const std::string &dtype, const char *lengths) {
    return make_problem(
        parse_case(std::string("seqs=") + lengths + " " + options + " dtype=" + dtype));
}

// Slopes and sinks belong to the plan, not to the sequences.
void use_plan_of(const Problem &from, Problem &to) {
    to.slopes = from.slopes;
    to.sink_logits = from.sink_logits;
}

// A host's threads: 7 workers, last index first.
struct Backwards {
    static void run(void *, uint32_t count, void (*fn)(void *, uint32_t, uint32_t), void *job) {
        std::vector<std::thread> threads;
        for (uint32_t worker = 0; worker < 7; worker++)
            threads.emplace_back([=] {
                for (uint32_t i = count; i-- > 0;)
                    if (i % 7 == worker) fn(job, i, worker);
            });
        for (std::thread &thread : threads) thread.join();
    }
};

} // namespace

TEST_CASE("bits: the same alone and in any batch, in any order") {
    for (const std::string &options : kOptions)
        for_dtypes([&](const std::string &dtype) {
            CAPTURE(options);
            Problem targets[] = {alone(options, dtype, "1/3"), alone(options, dtype, "77/101"),
                                 alone(options, dtype, "200/190")};
            for (Problem &target : targets) use_plan_of(targets[0], target);
            const Problem others[] = {alone(options, dtype, "2/2"), alone(options, dtype, "0/5"),
                                      alone(options, dtype, "90/240"),
                                      alone(options, dtype, "9/0")};
            std::vector<std::vector<const Problem *>> orders = {
                {&targets[0], &others[0], &others[1], &targets[1], &others[2], &targets[2],
                 &others[3]},
                {&others[3], &targets[1], &targets[0], &others[2], &others[0], &targets[2]},
                {&targets[2], &others[1], &others[2], &targets[1], &targets[0]}};
            std::vector<Problem> batches;
            for (const auto &order : orders) batches.push_back(batch_of(order));
            for (Problem &batch : batches) use_plan_of(targets[0], batch);

            for_engines([&](const Engine &engine) {
                Result want[3];
                for (size_t t = 0; t < 3; t++) want[t] = run(engine, targets[t]);
                for (size_t n = 0; n < batches.size(); n++) {
                    const Result result = run(engine, batches[n]);
                    for (size_t t = 0; t < 3; t++) {
                        const auto &order = orders[n];
                        const auto b = std::find(order.begin(), order.end(), &targets[t]);
                        CAPTURE(n);
                        CAPTURE(t);
                        const size_t at = (size_t)(b - order.begin());
                        CHECK(sequence_of(batches[n], result, at).same_bits(want[t]));
                    }
                }
            });
        });
}

TEST_CASE("bits: the same in every layout, with hints, and wherever buffers start") {
    for (const std::string &options : kOptions)
        for_dtypes([&](const std::string &dtype) {
            CAPTURE(options);
            const Problem p = alone(options, dtype, "3,0,120,45/5,2,110,97");
            for_engines([&](const Engine &engine) {
                const Result want = run(engine, p);
                for (const std::string &layout : std::vector<std::string>{
                         "offset", "hints", "gaps", "tails", "gaps hints offset tails",
                         "strides=padded", "strides=fused", "strides=heads",
                         "strides=padded gaps offset lse=padded",
                         "strides=heads lse=heads gaps tails",
                         "strides=fused gaps offset lse=heads"}) {
                    CAPTURE(layout);
                    const Result got = run(engine, p, parse_case("seqs=1 " + layout).layout);
                    CHECK(got.damage == "");
                    CHECK(got.same_bits(want));
                }
                // Without lse, o is the same.
                const Result got = run(engine, p, parse_case("seqs=1 lse=none").layout);
                CHECK(got.lse.empty());
                CHECK(got.o == want.o);
            });
        });
}

TEST_CASE("bits: the same with any threads") {
    vfa_hooks hooks;
    REQUIRE(vfa_hooks_init(&hooks, sizeof hooks) == VFA_OK);
    hooks.parallel = Backwards::run;
    hooks.max_workers = 7;
    std::map<std::string, std::vector<Context>> contexts; // for each engine
    for (const Engine &engine : named_engines()) {
        std::vector<Context> &list = contexts[engine.options()];
        list.push_back(make_context(engine, 1));
        list.push_back(make_context(engine, 2));
        list.push_back(make_context(engine, 0, &hooks));
    }
    for (const std::string &options : kOptions)
        for_dtypes([&](const std::string &dtype) {
            CAPTURE(options);
            // Long enough for several units of work a sequence, short enough for runs of them.
            const Problem p = alone(options, dtype, "1,2,250,3,0,70,400,1/4,2,260,3,5,70,150,0");
            for_engines([&](const Engine &engine) {
                const std::vector<Context> &list = contexts[engine.options()];
                const Result want = run(engine, p, p.layout, list[0].get());
                CHECK(run(engine, p, p.layout, list[1].get()).same_bits(want));
                CHECK(run(engine, p, p.layout, list[2].get()).same_bits(want));
            });
        });
}

TEST_CASE("bits: one plan, many forwards, from many threads") {
    for_all([](const Engine &engine, const std::string &dtype) {
        const Problem p = alone(kOptions[0], dtype, "40,0,130/40,3,120");
        Call first(p, p.layout);
        const Plan plan = first.make_plan(context_of(engine), engine.backend);
        first.forward(plan.get());
        const Result want = first.result();
        std::vector<std::unique_ptr<Call>> calls;
        for (int n = 0; n < 4; n++) calls.push_back(std::make_unique<Call>(p, p.layout));
        std::vector<std::thread> threads;
        for (const auto &call : calls)
            threads.emplace_back([&] {
                for (int n = 0; n < 3; n++) call->forward(plan.get());
            });
        for (std::thread &thread : threads) thread.join();
        for (const auto &call : calls) CHECK(call->result().same_bits(want));
    });
}

TEST_CASE("bits: an updated plan is a fresh plan") {
    for (const std::string &options : kOptions)
        for_dtypes([&](const std::string &dtype) {
            CAPTURE(options);
            std::vector<Problem> problems;
            for (const char *lengths : {"5,9/7,3", "100,1,0/120,4,2", "none", "1/1", "0,0/0,0",
                                        "5,9/7,3", "220/250", "3,3,3,3,3,3,3,3,3/2"}) {
                problems.push_back(alone(options, dtype, lengths));
                use_plan_of(problems[0], problems.back());
            }
            for_engines([&](const Engine &engine) {
                const Plan plan = Call(problems[0], problems[0].layout)
                                      .make_plan(context_of(engine), engine.backend);
                for (const Problem &p : problems) {
                    CAPTURE(p.text);
                    Call call(p, p.layout);
                    call.update(plan.get());
                    call.forward(plan.get());
                    CHECK(call.result().damage == "");
                    CHECK(call.result().same_bits(run(engine, p)));
                }
                // A failed update changes nothing.
                const Problem &last = problems.back();
                Call call(last, last.layout);
                const int32_t falling[] = {0, 5, 3}, good[] = {0, 5, 9};
                CHECK(vfa_plan_update(plan.get(), falling, 3, good, 3, nullptr, 0, nullptr, 0,
                                      nullptr) == VFA_ERROR_INVALID_ARGUMENT);
                call.forward(plan.get());
                CHECK(call.result().same_bits(run(engine, last)));
            });
        });
}

TEST_CASE("bits: Auto and VarLen are the backend that they name") {
    for (const Engine &engine : engines()) {
        if (engine.backend != VFA_BACKEND_AUTO && engine.backend != VFA_BACKEND_VARLEN) continue;
        for_dtypes([&](const std::string &dtype) {
            const Problem p = alone(kOptions[0], dtype, "1,0,70,150/4,2,50,190");
            const vfa_attn_desc desc = Call(p, p.layout).desc(engine.backend);
            vfa_backend resolved = engine.backend;
            REQUIRE(vfa_attn_supported(context_of(engine), &desc, &resolved, nullptr) == VFA_OK);
            CAPTURE(resolved);
            CHECK(resolved != VFA_BACKEND_AUTO);
            CHECK(resolved != VFA_BACKEND_VARLEN);
            CHECK(run(engine, p).same_bits(run(Engine{resolved, ""}, p)));
        });
    }
}

TEST_CASE("bits: vfa_varlen_forward is the backend Auto") {
    for (const vfa_dtype dtype : {VFA_DTYPE_BF16, VFA_DTYPE_F16, VFA_DTYPE_F32})
        for (const char *causal : {"none", "top_left", "bottom_right"})
            for (const char *scale : {"", " scale=0", " scale=-1.5"}) {
                const Problem p = make_problem(
                    parse_case(std::string("seqs=1,0,70,33/4,2,50,90 hq=4 hkv=2 d=40 causal=") +
                               causal + scale + " dtype=" + name_of(dtype)));
                CAPTURE(p.text);
                Call call(p, p.layout);
                call.varlen_forward();
                const Result result = call.result();
                CHECK(judge(p, truth_of(p), result) == "");
                CHECK(result.same_bits(run(Engine{VFA_BACKEND_AUTO, ""}, p)));
            }
}

TEST_CASE("bits: a window that holds everything is no window") {
    struct {
        std::string without, with;
    } const pairs[] = {
        {"", "window=2147483647,2147483647"},
        {"", "window=2147483647,-1"},
        {"", "window=-1,229"}, // the first query's diagonal is at -59, the last key at 169
        {"", "window=170,2147483646"},
        {"causal=top_left", "causal=top_left window=2147483647,0"},
        {"causal=top_left", "causal=top_left window=229,-1"},
        {"causal=bottom_right", "causal=bottom_right window=-1,3"}, // causal is the narrower one
        {"causal=bottom_right", "causal=bottom_right window=170,2147483647"},
        {"causal=bottom_right", "window=-1,0"},
    };
    for (const auto &pair : pairs)
        for_dtypes([&](const std::string &dtype) {
            CAPTURE(pair.with);
            const Problem p = alone(pair.without, dtype, "230/170");
            Problem windowed = p;
            const Case c = parse_case("seqs=1 " + pair.with);
            windowed.causal = c.causal;
            windowed.window_left = c.window_left;
            windowed.window_right = c.window_right;
            for_engines([&](const Engine &engine) {
                CHECK(run(engine, windowed).same_bits(run(engine, p)));
            });
        });
}

TEST_CASE("permuted keys change nothing beyond rounding") {
    for_dtypes([](const std::string &dtype) {
        const Problem p = alone("hq=4 hkv=2 d=40 dv=24 sink softcap=30", dtype, "60/250");
        Problem permuted = p;
        const size_t k_row = (size_t)(p.heads_kv * p.d), v_row = (size_t)(p.heads_kv * p.dv);
        for (size_t j = 0; j < 250; j++) { // 77 and 250 have no common factor
            const size_t to = (j * 77 + 13) % 250;
            std::copy_n(p.k.begin() + (ptrdiff_t)(j * k_row), k_row,
                        permuted.k.begin() + (ptrdiff_t)(to * k_row));
            std::copy_n(p.v.begin() + (ptrdiff_t)(j * v_row), v_row,
                        permuted.v.begin() + (ptrdiff_t)(to * v_row));
        }
        check_truth(permuted, truth_of(p));
    });
}

TEST_CASE("keys in two parts, merged by their lse, are the whole") {
    for_dtypes([](const std::string &dtype) {
        // f32 out, so that the merge sees what the kernel computed.
        const Problem p = alone("hq=4 hkv=2 d=40 dv=24 o_f32", dtype, "60/250");
        const Truth truth = truth_of(p);
        for (const int32_t cut : {1, 95, 96, 100, 249}) {
            const ptrdiff_t k_at = cut * p.heads_kv * p.d, v_at = cut * p.heads_kv * p.dv;
            Problem low = p, high = p;
            low.len_k = {cut};
            high.len_k = {250 - cut};
            low.k.resize((size_t)k_at);
            low.v.resize((size_t)v_at);
            high.k.erase(high.k.begin(), high.k.begin() + k_at);
            high.v.erase(high.v.begin(), high.v.begin() + v_at);
            for_engines([&](const Engine &engine) {
                CAPTURE(cut);
                const Result a = run(engine, low), b = run(engine, high);
                Result merged = a;
                for (size_t row = 0; row < a.lse.size(); row++) {
                    const double max = std::fmax(a.lse[row], b.lse[row]);
                    const double wa = std::exp(a.lse[row] - max), wb = std::exp(b.lse[row] - max);
                    merged.lse[row] = (float)(max + std::log(wa + wb));
                    for (size_t n = row * (size_t)p.dv; n < (row + 1) * (size_t)p.dv; n++)
                        merged.o[n] = (float)((wa * a.o[n] + wb * b.o[n]) / (wa + wb));
                }
                const std::string wrong = judge(p, truth, merged);
                CHECK_MESSAGE(wrong.empty(), wrong);
            });
        }
    });
}

TEST_CASE("queries in two sequences over the same keys are one sequence") {
    for_dtypes([](const std::string &dtype) {
        const Problem p = alone("hq=4 hkv=2 d=40 dv=24", dtype, "60/130");
        Problem two = p;
        two.len_q = {23, 37};
        two.len_k = {130, 130};
        two.k.insert(two.k.end(), p.k.begin(), p.k.end());
        two.v.insert(two.v.end(), p.v.begin(), p.v.end());
        check_truth(two, truth_of(p));
    });
}

TEST_CASE("a constant v is the result") {
    for_all([](const Engine &engine, const std::string &dtype) {
        for (const float constant : {1.5f, -3.0f, 0.0f, 1e-4f}) {
            Problem p =
                alone("hq=2 d=40 causal=bottom_right softcap=40 amp=3", dtype, "1,200/1,210");
            const Format &format = format_of(p.dtype);
            const float value = (float)rounded(constant, format);
            fill_v(p, [&](int64_t) { return value; });
            // Each weight may be rounded once, the result is rounded once; f32 sums.
            const double limit = (2 * format.roundoff() + 2e-6) * std::fabs(value);
            double worst = 0;
            for (const float o : run(engine, p).o)
                worst = std::fmax(worst, std::isnan(o) ? INFINITY : std::fabs((double)o - value));
            CAPTURE(constant);
            CHECK(worst <= limit);
        }
    });
}

TEST_CASE("all logits shifted by the same: o as before, lse shifted") {
    for_dtypes([](const std::string &dtype) {
        // The last dim of q is 1 and that of k the shift; of both it is 0 without.
        Problem p = alone("hq=4 hkv=2 d=33 scale=0.2", dtype, "50/200");
        for (size_t n = 32; n < p.q.size(); n += 33) p.q[n] = 1;
        for (size_t n = 32; n < p.k.size(); n += 33) p.k[n] = 0;
        const Truth unshifted = truth_of(p);
        for (const float shift : {-300.0f, -4.0f, 4.0f, 300.0f}) {
            CAPTURE(shift);
            for (size_t n = 32; n < p.k.size(); n += 33) p.k[n] = shift;
            const double by = (double)*p.scale * shift;
            Truth truth = unshifted;
            for (double &lse : truth.lse) lse += by;
            for (double &logit : truth.logit) logit += std::fabs(by);
            check_truth(p, truth);
        }
    });
}
