// AVX-512 F, BW, DQ and VL (Skylake-X 2017, Zen 4 2022 and newer).
#include "kernels/cpu/x86/avx512.hpp"

namespace vfa::cpu {

const Kernels avx512_kernels = tiled_kernels<Avx512>("avx512");

} // namespace vfa::cpu
