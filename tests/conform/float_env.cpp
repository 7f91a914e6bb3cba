// A host may run with any floating-point environment: the bits are the same, and it gets its own back.
#include <cmath>
#include <limits>

#include "numbers.hpp"
#include "properties.hpp"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

using namespace conform;

#if defined(__x86_64__)

namespace {

constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x0040, kRoundDown = 0x2000,
                   kRoundToZero = 0x6000, kFlags = 0x3f;

class Mxcsr {
public:
    explicit Mxcsr(unsigned value) : before_(_mm_getcsr()) { _mm_setcsr(value); }
    ~Mxcsr() { _mm_setcsr(before_); }

private:
    unsigned before_;
};

// Subnormal numbers in q, k and v, which flushing would lose.
Problem tiny_problem(const std::string &options) {
    Problem p = make_problem(parse_case(options));
    const Format &format = format_of(p.dtype);
    const double unit = std::ldexp(1, format.unit);
    for (size_t n = 0; n < p.v.size(); n += 2) p.v[n] = (float)((double)(n % 60 + 1) * unit);
    for (size_t n = 0; n < p.k.size(); n += 5) p.k[n] = (float)((double)(n % 30 + 1) * unit);
    // Columns of v that hold nothing else, so that o is subnormal, too.
    for (size_t n = 0; n < p.v.size(); n += (size_t)p.dv) p.v[n] = (float)(9 * unit);
    return p;
}

} // namespace

TEST_CASE("floating-point environment: same bits, and as it was afterwards") {
    for_all([](const Engine &engine, const std::string &dtype) {
        for (const char *options : {"seqs=40,0,130/60,3,130 hq=4 hkv=2 d=24 causal=bottom_right",
                                    "seqs=40,130/60,130 hq=2 d=16 softcap=5 alibi sink o_f32"}) {
            const Problem p = tiny_problem(std::string(options) + " dtype=" + dtype);
            CAPTURE(p.text);
            const Result want = run(engine, p);
            const std::string wrong = judge(p, truth_of(p), want);
            CHECK_MESSAGE(wrong.empty(), wrong);
            for (const unsigned control :
                 {0x1f80u | kFlushToZero | kDenormalsAreZero, 0x1f80u | kRoundDown,
                  0x1f80u | kRoundToZero | kFlushToZero, 0x1f80u | kFlags}) {
                CAPTURE(control);
                Call call(p, p.layout);
                unsigned after;
                {
                    const Mxcsr host(control);
                    // Threads inherit the environment of the thread that starts them.
                    const Context ctx = make_context(engine);
                    const Plan plan = call.make_plan(ctx.get(), engine.backend);
                    _mm_setcsr(control); // whatever flags the above has raised
                    call.forward(plan.get());
                    after = _mm_getcsr();
                }
                CHECK((after & ~kFlags) == (control & ~kFlags));
                CHECK((after & control & kFlags) == (control & kFlags)); // raised flags stay raised
                CHECK(call.result().same_bits(want));
            }
        }
    });
}

TEST_CASE("floating-point environment: no trap, though the host asked for them") {
    for_all([](const Engine &engine, const std::string &dtype) {
        // Infinities, NaN, overflow, underflow and inexact numbers inside, with every trap armed.
        Problem p = tiny_problem("seqs=20/30 d=16 amp=30 causal=bottom_right dtype=" + dtype);
        p.k[5] = std::numeric_limits<float>::infinity();
        p.v[7] = std::numeric_limits<float>::quiet_NaN();
        Call call(p, p.layout);
        const Plan plan = call.make_plan(context_of(engine), engine.backend);
        {
            const Mxcsr host(0x0000);
            call.forward(plan.get());
        }
        CHECK(judge(p, truth_of(p), call.result()) == "");
    });
}

#else

TEST_CASE("floating-point environment: same bits, and as it was afterwards") {
    vfa_test::skip("written for x86-64 only");
}

#endif
