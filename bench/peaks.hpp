// peaks.hpp - what this machine can do, measured: the scale for percentages.
#pragma once
#include <cstdint>
#include <string>

namespace bench {

// The arithmetic that a kernel of an instruction set is bound by for a dtype.
struct PeakKind {
    std::string isa; // "portable", "avx2", "avx512", "avx512bf16" (VDPBF16PS)
};
PeakKind peak_kind(const std::string &isa, bool bf16);

// GFLOP/s of independent multiply-adds in registers, on `threads` threads at once.
double measure_peak(const PeakKind &kind, uint32_t threads, double seconds);

// GB/s of summing an array of 256 MB a thread, on `threads` threads at once.
double measure_read_bandwidth(uint32_t threads, double seconds);

} // namespace bench
