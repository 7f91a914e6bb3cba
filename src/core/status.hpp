// status.hpp - a status code, and the sentence that goes with a failure.
#pragma once
#include <vfa/vfa.h>

namespace vfa {

struct [[nodiscard]] Status {
    vfa_status code = VFA_OK;
    bool ok() const noexcept { return code == VFA_OK; }
};

// Remembers the sentence for this thread and gives the status. The sentence becomes the caller's
// (vfa_last_error) only if the API call as a whole fails: see api/boundary.hpp.
__attribute__((format(printf, 2, 3))) Status fail(vfa_status code, const char *format,
                                                  ...) noexcept;

// The sentence of the last fail() on this thread.
const char *drafted_sentence() noexcept;

} // namespace vfa

#define VFA_TRY(expression)                                                                        \
    if (::vfa::Status vfa_try_status = (expression); !vfa_try_status.ok()) return vfa_try_status
