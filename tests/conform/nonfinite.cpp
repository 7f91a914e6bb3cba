// NaN and infinities: who sees them, and who does not. Everything is compared with the formula in double
// precision, class by class.
#include <cmath>
#include <limits>

#include "numbers.hpp"
#include "properties.hpp"

using namespace conform;

namespace {

const float kNan = std::numeric_limits<float>::quiet_NaN();
const float kInf = std::numeric_limits<float>::infinity();

// At both ends, and around the edges of blocks of 48, 64, 96 and 128 keys or rows.
const int64_t kPositions[] = {0, 1, 47, 48, 63, 95, 96, 127, 128, 150, 191, 199};

const char *const kMasks[] = {
    "",
    "causal=top_left",
    "causal=bottom_right",
    "window=20,10",
    "causal=top_left window=30,-1",
    "causal=bottom_right window=0,0 sink",
    "softcap=20 alibi causal=bottom_right",
};

Problem problem(const char *mask, const std::string &dtype) {
    return make_problem(
        parse_case(std::string("seqs=180/200 hq=2 hkv=1 d=8 dv=5 ") + mask + " dtype=" + dtype));
}

float &q_at(Problem &p, int64_t i, int h, int x) {
    return p.q[(size_t)((i * p.heads_q + h) * p.d + x)];
}
float &k_at(Problem &p, int64_t j, int x) { return p.k[(size_t)(j * p.heads_kv * p.d + x)]; }
float &v_at(Problem &p, int64_t j, int x) { return p.v[(size_t)(j * p.heads_kv * p.dv + x)]; }

} // namespace

TEST_CASE("NaN in v_j: only rows that see j, and only that dim") {
    for (const char *mask : kMasks)
        for_dtypes([&](const std::string &dtype) {
            for (const int64_t j : kPositions) {
                Problem p = problem(mask, dtype);
                v_at(p, j, (int)(j % 5)) = kNan;
                CAPTURE(j);
                check_truth(p);
            }
        });
}

TEST_CASE("NaN in k_j: only rows that see j, all of them") {
    for (const char *mask : kMasks)
        for_dtypes([&](const std::string &dtype) {
            for (const int64_t j : kPositions) {
                Problem p = problem(mask, dtype);
                k_at(p, j, (int)(j % 8)) = kNan;
                CAPTURE(j);
                check_truth(p);
            }
        });
}

TEST_CASE("NaN in q_i: row i alone, o and lse") {
    for (const char *mask : kMasks)
        for_dtypes([&](const std::string &dtype) {
            for (const int64_t i : {0, 1, 7, 8, 23, 24, 95, 96, 179}) {
                Problem p = problem(mask, dtype);
                q_at(p, i, (int)(i % 2), (int)(i % 8)) = kNan;
                CAPTURE(i);
                check_truth(p);
            }
        });
}

TEST_CASE("NaN everywhere is NaN, and leaves the rows that see nothing alone") {
    for_dtypes([](const std::string &dtype) {
        Problem p = problem("causal=bottom_right", dtype);
        p.len_q = {100, 80};
        p.len_k = {50, 150}; // 50 rows of the first see nothing
        for (std::vector<float> *values : {&p.q, &p.k, &p.v})
            for (float &value : *values) value = kNan;
        check_truth(p);
    });
}

TEST_CASE("infinities in v, seen and unseen, alone and against each other") {
    for (const char *mask : kMasks)
        for_dtypes([&](const std::string &dtype) {
            for (const int64_t j : kPositions) {
                Problem p = problem(mask, dtype);
                v_at(p, j, 0) = kInf;
                v_at(p, j, 1) = -kInf;
                v_at(p, j, 2) = kInf; // and its opposite, which is NaN for those who see both
                v_at(p, (j + 11) % 200, 2) = -kInf;
                v_at(p, (j + 11) % 200, 3) = kInf; // twice is the same
                v_at(p, j, 3) = kInf;
                CAPTURE(j);
                check_truth(p);
            }
        });
}

TEST_CASE("an infinite v counts where its weight is 0 in float but not in double") {
    // Logits are 16 times the first element of k: 0, and `far` for one key.
    struct {
        double far;
        bool is_nan; // exp(-far) is 0 in double, too: 0 * inf
    } const table[] = {{80, false},  {100, false}, {200, false},
                       {736, false}, {768, true},  {4000, true}};
    for (const auto &row : table)
        for_dtypes([&](const std::string &dtype) {
            for (const int64_t j : {0, 5, 95, 96, 140, 199})
                for (const int64_t top : {1, 94, 97, 150, 198}) {
                    Problem p = zeros("seqs=3/200 d=4 dv=9 scale=1 dtype=" + dtype);
                    for (int64_t i = 0; i < 3; i++) q_at(p, i, 0, 0) = 16;
                    k_at(p, top, 0) = (float)(row.far / 16);
                    fill_v(p, [](int64_t key) { return key % 7; });
                    v_at(p, j, 0) = kInf;
                    v_at(p, j, 8) = -kInf;
                    CAPTURE(row.far);
                    CAPTURE(j);
                    CAPTURE(top);
                    const double o = truth_of(p).o[0]; // the oracle says so, too
                    CHECK((row.is_nan ? std::isnan(o) : o == kInf));
                    check_truth(p);
                }
        });
}

TEST_CASE("an infinite v below a dominating sink, and behind several maxima") {
    for_dtypes([](const std::string &dtype) {
        Problem p = zeros("seqs=2/10 d=4 dv=3 scale=1 sink dtype=" + dtype);
        p.sink_logits = {300};
        v_at(p, 4, 1) = -kInf;
        check_truth(p);

        // The maximum rises by 100 at each of three places: e^-300 in all.
        Problem steps = zeros("seqs=2/300 d=4 dv=3 scale=1 dtype=" + dtype);
        for (int64_t i = 0; i < 2; i++) q_at(steps, i, 0, 0) = 1;
        v_at(steps, 2, 1) = kInf;
        k_at(steps, 90, 0) = 100;
        k_at(steps, 170, 0) = 200;
        k_at(steps, 290, 0) = 300;
        check_truth(steps);
    });
}

TEST_CASE("infinities in k: logits of +infinity are NaN, of -infinity no weight") {
    for (const char *mask : kMasks)
        for_dtypes([&](const std::string &dtype) {
            float value = kInf; // its sign in a logit is that of q
            for (const int64_t j : kPositions) {
                Problem p = problem(mask, dtype);
                k_at(p, j, 3) = value = -value;
                q_at(p, 100, 1, 3) = 0; // 0 * inf
                CAPTURE(j);
                check_truth(p);
            }
        });
}

TEST_CASE("rows whose logits are all -infinity see nothing") {
    for (const char *options : {"", "sink", "causal=bottom_right", "window=150,20"})
        for_dtypes([&](const std::string &dtype) {
            Problem p = problem(options, dtype);
            for (int64_t i = 0; i < 180; i++)
                for (int h = 0; h < 2; h++) q_at(p, i, h, 3) = i % 3 == 0 ? 1 : -1;
            for (int64_t j = 0; j < 200; j++) k_at(p, j, 3) = -kInf;
            // Every third row: o = 0, lse = -infinity or the sink. The others: +infinity, so NaN.
            const Truth truth = truth_of(p);
            CHECK(truth.o[0] == 0);
            CHECK(std::isnan(truth.o[178 * 2 * 5]));
            check_truth(p);
            // v is not looked at where nothing is seen.
            v_at(p, 60, 0) = kNan;
            check_truth(p);
        });
}

TEST_CASE("infinities in q") {
    for (const char *mask : kMasks)
        for_dtypes([&](const std::string &dtype) {
            for (const float value : {kInf, -kInf}) {
                Problem p = problem(mask, dtype);
                for (const int64_t i : {0, 5, 24, 96, 179}) q_at(p, i, 1, 2) = value;
                for (int64_t j = 0; j < 190; j++) k_at(p, j, 2) = std::fabs(k_at(p, j, 2));
                CAPTURE(value);
                check_truth(p);
            }
        });
}

TEST_CASE("scale 0 and infinite inputs are NaN, as 0 * inf is") {
    for_dtypes([](const std::string &dtype) {
        Problem p = problem("scale=0 causal=bottom_right", dtype);
        k_at(p, 100, 3) = kInf;
        q_at(p, 20, 0, 1) = -kInf;
        check_truth(p);
    });
}

TEST_CASE("NaN between the rows never shows") {
    // Every layout puts NaN where no sequence is, and has it changed by nobody.
    for (const char *options : {"", "causal=bottom_right", "window=9,4 softcap=30 alibi sink"})
        for_dtypes([&](const std::string &dtype) {
            for (const char *layout :
                 {"gaps tails", "strides=padded gaps", "strides=heads gaps tails",
                  "strides=fused gaps lse=padded", "strides=padded lse=heads tails"}) {
                Problem p = make_problem(
                    parse_case(std::string("seqs=3,0,97,30/50,4,97,20 hq=4 hkv=2 d=20 dv=12 ") +
                               options + " " + layout + " dtype=" + dtype));
                check_truth(p);
            }
        });
}
