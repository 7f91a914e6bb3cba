// cpuid.hpp - what this x86 processor and its operating system can do.
#pragma once

namespace vfa::cpu {

bool has_avx2_fma_f16c() noexcept; // and the operating system saves their registers

// The processor's own name ("AMD EPYC 7R13 ..."), or "" if it has none. 64 bytes with the terminator.
void processor_name(char (&name)[64]) noexcept;

} // namespace vfa::cpu
