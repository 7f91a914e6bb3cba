#include "api/names.hpp"

namespace vfa {

namespace {

constexpr const char *kBackendNames[] = {
    "Auto", "FlashAttention", "FlashAttentionV3", "Math", "MemoryEfficient", "CuDNN", "Metal",
    "Cpu",  "VarLen"};
constexpr int kNumBackends = sizeof kBackendNames / sizeof *kBackendNames;

// Letters without regard to case or locale.
char folded(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }
bool separator(char c) { return c == '_' || c == '-'; }

bool same_name(const char *a, const char *b) {
    for (;;) {
        while (separator(*a)) a++;
        while (separator(*b)) b++;
        if (folded(*a) != folded(*b)) return false;
        if (!*a) return true;
        a++, b++;
    }
}

} // namespace

const char *status_name(vfa_status status) noexcept {
    switch (status) {
    case VFA_OK:
        return "VFA_OK";
    case VFA_ERROR_INVALID_ARGUMENT:
        return "VFA_ERROR_INVALID_ARGUMENT";
    case VFA_ERROR_INVALID_STATE:
        return "VFA_ERROR_INVALID_STATE";
    case VFA_ERROR_UNSUPPORTED:
        return "VFA_ERROR_UNSUPPORTED";
    case VFA_ERROR_BACKEND_UNAVAILABLE:
        return "VFA_ERROR_BACKEND_UNAVAILABLE";
    case VFA_ERROR_OUT_OF_MEMORY:
        return "VFA_ERROR_OUT_OF_MEMORY";
    case VFA_ERROR_DEVICE:
        return "VFA_ERROR_DEVICE";
    case VFA_ERROR_INTERNAL:
        return "VFA_ERROR_INTERNAL";
    case VFA_STATUS_FORCE_INT32:
        break;
    }
    return "unknown status";
}

const char *backend_name(vfa_backend backend) noexcept {
    return (int)backend >= 0 && (int)backend < kNumBackends ? kBackendNames[(int)backend] : nullptr;
}

Status backend_from_name(const char *name, vfa_backend *backend) noexcept {
    for (int i = 0; i < kNumBackends; i++)
        if (same_name(name, kBackendNames[i])) {
            *backend = (vfa_backend)i;
            return {};
        }
    return fail(VFA_ERROR_INVALID_ARGUMENT, "\"%.100s\" is not the name of a backend", name);
}

} // namespace vfa
