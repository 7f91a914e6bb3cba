// Cases whose answer is known without computing attention.
#include <cmath>
#include <limits>

#include "numbers.hpp"
#include "properties.hpp"

using namespace conform;

namespace {

const float kInf = std::numeric_limits<float>::infinity();

// All elements of the row of o, for one head.
void check_row(const Problem &p, const Result &result, size_t row, double want) {
    const double limit = 1e-6 * std::fabs(want);
    bool right = true;
    for (size_t x = 0; x < (size_t)p.dv; x++)
        right = right && std::fabs(result.o[row * (size_t)p.dv + x] - want) <= limit;
    CAPTURE(row);
    CAPTURE(result.o[row * (size_t)p.dv]);
    CHECK_MESSAGE(right, "should be ", want);
}

void check_lse(const Result &result, size_t row, double want) {
    CAPTURE(row);
    if (std::isinf(want))
        CHECK(result.lse[row] == (float)want);
    else
        CHECK(std::fabs(result.lse[row] - want) <= 2e-6 * std::fmax(1, std::fabs(want)));
}

} // namespace

TEST_CASE("closed form: more queries than keys, aligned at the bottom right") {
    for_all([](const Engine &engine, const std::string &dtype) {
        Problem p = zeros("seqs=5/2 d=16 causal=bottom_right dtype=" + dtype);
        fill_v(p, [](int64_t j) { return j == 0 ? 1 : 3; });
        const Result result = run(engine, p);
        const double o[] = {0, 0, 0, 1, 2};
        const double lse[] = {-kInf, -kInf, -kInf, 0, std::log(2)};
        for (size_t row = 0; row < 5; row++) {
            check_row(p, result, row, o[row]);
            check_lse(result, row, lse[row]);
        }
    });
}

TEST_CASE("closed form: windows that see all of 33 keys from 129 queries, and one that does not") {
    // The diagonal is at j = i - 96, so query 0 needs a window of 128 to the right to see key 32.
    for (const std::string &window : std::vector<std::string>{"-1,2147483647", "-1,128", "-1,-1"})
        for_all([&](const Engine &engine, const std::string &dtype) {
            CAPTURE(window);
            Problem p = zeros("seqs=129/33 d=32 window=" + window + " dtype=" + dtype);
            fill_v(p, [](int64_t j) { return j; });
            const Result result = run(engine, p);
            for (size_t row = 0; row < 129; row++) {
                check_row(p, result, row, 16);
                check_lse(result, row, std::log(33));
            }
        });
    for_all([](const Engine &engine, const std::string &dtype) {
        Problem p = zeros("seqs=129/33 d=32 window=-1,64 dtype=" + dtype);
        fill_v(p, [](int64_t j) { return j; });
        const Result result = run(engine, p);
        for (size_t row = 0; row < 129; row++) { // keys up to row - 96 + 64
            const int keys = std::min((int)row - 31, 33);
            if (keys <= 0) {
                check_row(p, result, row, 0);
                check_lse(result, row, -kInf);
            } else {
                // Halves: exact in every format.
                check_row(p, result, row, (keys - 1) / 2.0);
                check_lse(result, row, std::log(keys));
            }
        }
    });
}

TEST_CASE("closed form: logits of -46341") {
    for_all([](const Engine &engine, const std::string &dtype) {
        Problem p = zeros("seqs=1/8 d=128 dtype=" + dtype); // scale 128^-0.5
        for (float &q : p.q) q = 64;
        for (float &k : p.k) k = -64;
        fill_v(p, [](int64_t j) { return j; });
        const Result result = run(engine, p);
        check_row(p, result, 0, 3.5);
        check_lse(result, 0, -46338.8707);
    });
}

TEST_CASE("closed form: one key, values of 133120") {
    for_all([](const Engine &engine, const std::string &dtype) {
        if (dtype == "f16") return; // ends at 65504
        Problem p = zeros("seqs=1 d=64 dtype=" + dtype);
        for (std::vector<float> *values : {&p.q, &p.k, &p.v})
            for (float &value : *values) value = 133120;
        const Result result = run(engine, p);
        check_row(p, result, 0, 133120);
        check_lse(result, 0, 1.417674752e11);
    });
}

TEST_CASE("closed form: a softcap reached") {
    for_all([](const Engine &engine, const std::string &dtype) {
        Problem p = zeros("seqs=2/4 d=8 scale=1 softcap=50 dtype=" + dtype);
        for (float &q : p.q) q = 25;
        for (float &k : p.k) k = 25; // scores of 5000
        fill_v(p, [](int64_t j) { return j; });
        const Result result = run(engine, p);
        for (size_t row = 0; row < 2; row++) {
            check_row(p, result, row, 1.5);
            check_lse(result, row, 50 + std::log(4));
        }
    });
}

TEST_CASE("closed form: sinks") {
    for_all([](const Engine &engine, const std::string &dtype) {
        // Heads with sinks ln 3, -infinity, 0 and 100, over one key of logit 0 with value 4, and over none.
        Problem p = zeros("seqs=1,1/1,0 hq=4 hkv=2 d=8 sink dtype=" + dtype);
        p.sink_logits = {(float)std::log(3), -kInf, 0, 100};
        fill_v(p, [](int64_t) { return 4; });
        const Result result = run(engine, p);
        check_row(p, result, 0, 1);
        check_row(p, result, 1, 4);
        check_row(p, result, 2, 2);
        CHECK(std::fabs(result.o[3 * 8]) < 1e-36);
        check_lse(result, 0, std::log(4));
        check_lse(result, 1, 0);
        check_lse(result, 2, std::log(2));
        check_lse(result, 3, 100);
        for (size_t head = 0; head < 4; head++) {
            check_row(p, result, 4 + head, 0);
            check_lse(result, 4 + head, p.sink_logits[head]);
        }
    });
}

TEST_CASE("closed form: ALiBi with equal products") {
    for_all([](const Engine &engine, const std::string &dtype) {
        // Query 0 of 2 over 4 keys: distances |0 + 2 - j| = 2, 1, 0, 1, and a slope of ln 2: weights
        // 1/4, 1/2, 1, 1/2 of 2.25. v = 9 for key 2 alone: o = 9 / 2.25. Query 1: 1/8, 1/4, 1/2, 1 of 1.875.
        Problem p = zeros("seqs=2/4 d=8 alibi dtype=" + dtype);
        p.slopes = {(float)std::log(2)};
        fill_v(p, [](int64_t j) { return j == 2 ? 9 : 0; });
        const Result result = run(engine, p);
        check_row(p, result, 0, 4);
        const double second = rounded(4.5 / 1.875, format_of(p.dtype));
        CHECK(std::fabs(result.o[8] - second) <= 1e-6);
        check_lse(result, 0, std::log(2.25));
        check_lse(result, 1, std::log(1.875));
    });
}

TEST_CASE("closed form: 70000 sequences of one token") {
    for_dtypes([](const std::string &dtype) {
        Case c = parse_case("seqs=1 d=8 causal=bottom_right dtype=" + dtype);
        c.len_q.assign(70000, 1);
        c.len_k = c.len_q;
        const Problem p = make_problem(c);
        for_engines([&](const Engine &engine) {
            const Result result = run(engine, p);
            CHECK(result.damage == "");
            CHECK((result.o == p.v)); // one key has weight 1
            size_t wrong = 0;
            for (size_t token = 0; token < 70000; token++) {
                double dot = 0;
                for (size_t x = 0; x < 8; x++)
                    dot += (double)p.q[token * 8 + x] * p.k[token * 8 + x];
                wrong += !(std::fabs(result.lse[token] - dot * p.used_scale()) <= 1e-5);
            }
            CHECK(wrong == 0);
        });
    });
}
