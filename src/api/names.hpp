// names.hpp - names of enum values, and the way back.
#pragma once
#include "core/status.hpp"

namespace vfa {

const char *status_name(vfa_status status) noexcept;
const char *backend_name(vfa_backend backend) noexcept; // null for unknown values
Status backend_from_name(const char *name, vfa_backend *backend) noexcept;

} // namespace vfa
