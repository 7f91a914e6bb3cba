// unavailable.hpp - backends that this build does not have. They answer with the reason, nothing
// else.
#pragma once
#include "backend/backend.hpp"

namespace vfa {

// FLASH_ATTENTION, FLASH_ATTENTION_V3, CUDNN or METAL.
const Backend &unavailable_backend(vfa_backend id) noexcept;

} // namespace vfa
