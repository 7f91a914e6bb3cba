#include "core/status.hpp"

#include <cstdarg>
#include <cstdio>

namespace vfa {

namespace {
thread_local char draft[sizeof(vfa_error::message)] = "";
}

Status fail(vfa_status code, const char *format, ...) noexcept {
    va_list args;
    va_start(args, format);
    std::vsnprintf(draft, sizeof draft, format, args);
    va_end(args);
    return Status{code};
}

const char *drafted_sentence() noexcept { return draft; }

} // namespace vfa
