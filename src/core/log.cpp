#include "core/log.hpp"

#include <cstdarg>
#include <cstdio>

namespace vfa {

void Log::write(vfa_log_level level, const char *message) const noexcept {
    if (!wants(level)) return;
    std::lock_guard lock(mutex_);
    hooks_.log(hooks_.user, level, message);
}

void Log::print(vfa_log_level level, const char *format, ...) const noexcept {
    if (!wants(level)) return;
    char line[512];
    va_list args;
    va_start(args, format);
    std::vsnprintf(line, sizeof line, format, args);
    va_end(args);
    write(level, line);
}

} // namespace vfa
