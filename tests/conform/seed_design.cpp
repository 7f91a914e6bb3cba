// The eight tests that the design began with, by their names.
#include <cmath>

#include "properties.hpp"

using namespace conform;

TEST_CASE("single sequence") {
    for_dtypes([](const std::string &dtype) {
        check_truth(make_problem(parse_case("seqs=16 hq=2 d=32 dtype=" + dtype)));
    });
}

TEST_CASE("two sequences are independent") {
    for_all([](const Engine &engine, const std::string &dtype) {
        Problem p = make_problem(parse_case("seqs=4,6 hq=2 d=16 dtype=" + dtype));
        const Result before = run(engine, p);
        const size_t first = 4u * 2 * 16; // elements of sequence 0, in q as in k, v and o
        for (std::vector<float> *values : {&p.q, &p.k, &p.v})
            for (size_t n = first; n < values->size(); n++) (*values)[n] = -(*values)[n] * 2;
        const Result after = run(engine, p);
        bool first_kept = true, second_kept = true;
        for (size_t n = 0; n < before.o.size(); n++)
            (n < first ? first_kept : second_kept) &= before.o[n] == after.o[n];
        CHECK(first_kept);
        CHECK_FALSE(second_kept);
    });
}

TEST_CASE("output shape") {
    for_all([](const Engine &engine, const std::string &dtype) {
        // v is all ones, so every element that should be written is 1, and result() sees to it that no
        // other one is written.
        Problem p = zeros("seqs=3,5 hq=4 hkv=2 d=8 dv=24 tails dtype=" + dtype);
        fill_v(p, [](int64_t) { return 1; });
        const Result result = run(engine, p);
        CHECK(result.damage == "");
        CHECK(result.o.size() == 8u * 4 * 24);
        CHECK(result.lse.size() == 8u * 4);
        bool all_ones = true, all_logs = true;
        for (const float o : result.o) all_ones = all_ones && o == 1;
        for (size_t row = 0; row < result.lse.size(); row++)
            all_logs =
                all_logs && std::fabs(result.lse[row] - std::log(row / 4 < 3 ? 3.0 : 5.0)) < 2e-5;
        CHECK(all_ones);
        CHECK(all_logs);
    });
}

TEST_CASE("cu_seqlens semantics") {
    for_all([](const Engine &engine, const std::string &dtype) {
        // Equal weights: o is the mean of the sequence's own rows of v.
        Problem p = zeros("seqs=2,3,1/4,2,1 d=16 dtype=" + dtype);
        fill_v(p, [](int64_t j) { return j < 4 ? j : j < 6 ? 10 * j : 7; });
        const Result result = run(engine, p);
        const float means[] = {1.5f, 1.5f, 45, 45, 45, 7};
        for (size_t token = 0; token < 6; token++)
            for (size_t x = 0; x < 16; x++) CHECK(result.o[token * 16 + x] == means[token]);
    });
}

TEST_CASE("causal mask") {
    for (const char *causal : {"top_left", "bottom_right"})
        for_all([&](const Engine &engine, const std::string &dtype) {
            Problem p = zeros(std::string("seqs=2 d=64 causal=") + causal + " dtype=" + dtype);
            fill_v(p, [](int64_t j) { return j == 0 ? 1 : 4; });
            const Result result = run(engine, p);
            for (size_t x = 0; x < 64; x++) {
                CHECK(result.o[x] == 1.0f);
                CHECK(result.o[64 + x] == 2.5f);
            }
        });
}

TEST_CASE("softmax sums to one") {
    for_all([](const Engine &engine, const std::string &dtype) {
        Problem p = make_problem(parse_case("seqs=50,130 hq=2 d=40 amp=2 dtype=" + dtype));
        fill_v(p, [](int64_t) { return 1; });
        float worst = 0;
        for (const float o : run(engine, p).o) worst = std::fmax(worst, std::fabs(o - 1));
        // The weights' own rounding, if a kernel rounds them, and that of the result.
        CHECK(worst <= (p.dtype == VFA_DTYPE_F32   ? 2e-6f
                        : p.dtype == VFA_DTYPE_F16 ? 1e-3f
                                                   : 8e-3f));
    });
}

TEST_CASE("empty sequence") {
    for_dtypes([](const std::string &dtype) {
        const Problem p = make_problem(parse_case("seqs=0,4 d=32 dtype=" + dtype)); // [0, 0, 4]
        check_truth(p);
        Problem alone = p;
        alone.len_q = alone.len_k = {4};
        for_engines(
            [&](const Engine &engine) { CHECK(run(engine, p).same_bits(run(engine, alone))); });
    });
}

TEST_CASE("head_dim 64") {
    for_dtypes([](const std::string &dtype) {
        check_truth(make_problem(parse_case("seqs=7,64,100 hq=4 d=64 dtype=" + dtype)));
    });
}
