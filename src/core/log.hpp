// log.hpp - finished lines to the caller's log hook.
#pragma once
#include <mutex>

#include <vfa/vfa.h>

namespace vfa {

class Log {
public:
    Log(const vfa_hooks &hooks, vfa_log_level level) noexcept : hooks_(hooks), level_(level) {}

    bool wants(vfa_log_level level) const noexcept { return hooks_.log && level <= level_; }
    void write(vfa_log_level level, const char *message) const noexcept;
    __attribute__((format(printf, 3, 4))) void print(vfa_log_level level, const char *format,
                                                     ...) const noexcept;

private:
    vfa_hooks hooks_;
    vfa_log_level level_;
    mutable std::mutex mutex_; // the hook is never called twice at once
};

} // namespace vfa
