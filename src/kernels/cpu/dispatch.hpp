// dispatch.hpp - which kernels this processor gets.
#pragma once
#include "kernels/cpu/kernel_table.hpp"

namespace vfa::cpu {

extern const Kernels math_kernels;             // the definition
extern const Kernels memory_efficient_kernels; // online softmax, portable C++
extern const Kernels portable_kernels;         // tiled, one for each instruction set
extern const Kernels avx2_kernels;
extern const Kernels avx512_kernels;
extern const Kernels avx512bf16_kernels;

// The tiled kernels, worst first. Each needs what its name says of the processor.
struct Isa {
    const Kernels *kernels;
    const char *needs;            // features in words, for the reason when it is missing
    bool (*available)() noexcept; // here, operating system included
};
uint32_t isa_count() noexcept;
const Isa &isa(uint32_t index) noexcept;
// The index of a name; isa_count() if there is none.
uint32_t find_isa(const char *name) noexcept;
// The best one available up to cap (an index).
const Kernels &best_tiled_kernels(uint32_t cap) noexcept;

} // namespace vfa::cpu
