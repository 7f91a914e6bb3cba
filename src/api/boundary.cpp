#include "api/boundary.hpp"

#include <cstdio>

namespace vfa {

namespace {
thread_local char sentence[sizeof(vfa_error::message)] = "";
}

void publish(vfa_status status, vfa_error *error, const Log *log) noexcept {
    std::snprintf(sentence, sizeof sentence, "%s", drafted_sentence());
    if (error) {
        error->status = status;
        std::snprintf(error->message, sizeof error->message, "%s", sentence);
    }
    if (log) log->write(VFA_LOG_ERROR, sentence);
}

const char *last_error() noexcept { return sentence; }

} // namespace vfa
