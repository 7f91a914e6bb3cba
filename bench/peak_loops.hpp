// peak_loops.hpp - one loop for each instruction set, in files with its flags. Each does `rounds` rounds
// of independent multiply-adds and returns the floating-point operations of a round.
#pragma once
#include <cstdint>

namespace bench {

double peak_loop_portable(int64_t rounds);
double peak_loop_avx2(int64_t rounds);
double peak_loop_avx512(int64_t rounds);
double peak_loop_avx512bf16(int64_t rounds);

} // namespace bench
