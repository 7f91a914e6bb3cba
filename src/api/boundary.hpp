// boundary.hpp - where C++ ends and C begins: no exception passes, and each failure leaves its
// sentence.
#pragma once
#include <exception>
#include <new>

#include "core/float_env.hpp"
#include "core/log.hpp"
#include "core/status.hpp"

namespace vfa {

// The failure as the caller sees it: vfa_last_error(), *error, and the log of the context at hand.
void publish(vfa_status status, vfa_error *error, const Log *log) noexcept;

const char *last_error() noexcept;

// The body of every function that can fail, in the default floating-point environment, so that a
// host's rounding and traps do not reach the arithmetic. body: () -> Status.
template <class Body> vfa_status guard(vfa_error *error, const Log *log, Body &&body) noexcept {
    const DefaultFloatEnv environment;
    Status status;
    try {
        status = body();
    } catch (const std::bad_alloc &) {
        status = fail(VFA_ERROR_OUT_OF_MEMORY, "out of memory");
    } catch (const std::exception &exception) {
        status = fail(VFA_ERROR_INTERNAL, "internal error: %s", exception.what());
    } catch (...) {
        status = fail(VFA_ERROR_INTERNAL, "internal error: unknown exception");
    }
    if (!status.ok()) publish(status.code, error, log);
    return status.code;
}

} // namespace vfa
