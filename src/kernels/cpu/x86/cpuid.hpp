// cpuid.hpp - what this x86 processor and its operating system can do.
#pragma once

namespace vfa::cpu {

// Each of them: and the operating system saves the registers.
bool has_avx2() noexcept;       // with FMA and F16C
bool has_avx512() noexcept;     // F, BW, DQ and VL, with all of has_avx2
bool has_avx512bf16() noexcept; // with all of has_avx512

// The processor's own name ("AMD EPYC 7R13 ..."), or "" if it has none. 64 bytes with the
// terminator.
void processor_name(char (&name)[64]) noexcept;

} // namespace vfa::cpu
