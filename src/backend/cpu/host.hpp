// host.hpp - the backends that compute on this processor: MATH, MEMORY_EFFICIENT and CPU. One loop
// over units of work serves all three; they differ in the kernels.
#pragma once
#include "backend/backend.hpp"

namespace vfa {

const Backend &math_backend() noexcept;
const Backend &memory_efficient_backend() noexcept;
const Backend &cpu_backend() noexcept;

} // namespace vfa
