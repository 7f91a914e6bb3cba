#include "peak_body.hpp"
#include "peak_loops.hpp"

// As the portable kernels: a multiplication and an addition of 4 floats.
double bench::peak_loop_portable(int64_t rounds) {
    using F = float __attribute__((vector_size(16)));
    F factor = {1.0001f, 1.0001f, 1.0001f, 1.0001f};
    asm volatile("" : "+" VFA_VECTOR_REGISTER(factor)); // not known to the compiler
    run_rounds<12>(
        rounds,
        factor, [=](F sum) __attribute__((always_inline)) { return sum + factor * factor; });
    return 12 * 4 * 2;
}
