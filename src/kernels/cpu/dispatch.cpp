#include "kernels/cpu/dispatch.hpp"

#include <cstring>

#if defined(__x86_64__)
#include "kernels/cpu/x86/cpuid.hpp"
#endif

namespace vfa::cpu {

namespace {

// Worst first. A kernel for another instruction set is one file and one line here.
const Isa kIsas[] = {
    {&portable_kernels, "nothing", []() noexcept { return true; }},
#if defined(__x86_64__)
    {&avx2_kernels, "AVX2, FMA and F16C", has_avx2},
#if defined(VFA_SIMDE) // emulated with AVX2, in tests/simde only
    {&avx512_kernels, "AVX2, FMA and F16C", has_avx2},
    {&avx512bf16_kernels, "AVX2, FMA and F16C", has_avx2},
#else
    {&avx512_kernels, "AVX-512 F, BW, DQ and VL", has_avx512},
    {&avx512bf16_kernels, "AVX-512 F, BW, DQ, VL and BF16", has_avx512bf16},
#endif
#endif
};

} // namespace

uint32_t isa_count() noexcept { return sizeof kIsas / sizeof *kIsas; }

const Isa &isa(uint32_t index) noexcept { return kIsas[index]; }

uint32_t find_isa(const char *name) noexcept {
    uint32_t index = 0;
    while (index < isa_count() && std::strcmp(kIsas[index].kernels->name, name) != 0) index++;
    return index;
}

const Kernels &best_tiled_kernels(uint32_t cap) noexcept {
    uint32_t best = 0;
    for (uint32_t index = 1; index <= cap && index < isa_count(); index++)
        if (kIsas[index].available()) best = index;
    return *kIsas[best].kernels;
}

} // namespace vfa::cpu
