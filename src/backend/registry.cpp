#include <cstdio>

#include "backend/backend.hpp"
#include "backend/cpu/host.hpp"
#include "backend/unavailable.hpp"

namespace vfa {

const Backend *find_backend(vfa_backend id) noexcept {
    switch (id) {
    case VFA_BACKEND_MATH:
        return &math_backend();
    case VFA_BACKEND_MEMORY_EFFICIENT:
        return &memory_efficient_backend();
    case VFA_BACKEND_CPU:
        return &cpu_backend();
    case VFA_BACKEND_FLASH_ATTENTION:
    case VFA_BACKEND_FLASH_ATTENTION_V3:
    case VFA_BACKEND_CUDNN:
    case VFA_BACKEND_METAL:
        return &unavailable_backend(id);
    case VFA_BACKEND_AUTO:
    case VFA_BACKEND_VARLEN:
    case VFA_BACKEND_FORCE_INT32:
        break;
    }
    return nullptr;
}

namespace {

// What AUTO or VARLEN try, best first; VFA_BACKEND_AUTO (0) is the end.
const vfa_backend *order_of(vfa_backend id) {
    // AUTO ends with the backends that need nothing of the machine; VARLEN is about speed.
    static constexpr vfa_backend automatic[] = {
        VFA_BACKEND_FLASH_ATTENTION_V3,
        VFA_BACKEND_FLASH_ATTENTION,
        VFA_BACKEND_CPU,
        VFA_BACKEND_MEMORY_EFFICIENT,
        VFA_BACKEND_AUTO,
    };
    static constexpr vfa_backend varlen[] = {
        VFA_BACKEND_FLASH_ATTENTION_V3,
        VFA_BACKEND_FLASH_ATTENTION,
        VFA_BACKEND_CPU,
        VFA_BACKEND_AUTO,
    };
    return id == VFA_BACKEND_AUTO ? automatic : varlen;
}

Status usable(const Backend &backend, const Problem &problem, int32_t device) noexcept {
    if (const char *reason = backend.unavailable(device))
        return fail(VFA_ERROR_BACKEND_UNAVAILABLE, "%s", reason);
    return backend.supports(problem);
}

} // namespace

Status resolve_backend(const Problem &problem, int32_t device, const Backend **backend) noexcept {
    if (const Backend *named = find_backend(problem.backend)) {
        VFA_TRY(usable(*named, problem, device));
        *backend = named;
        return {};
    }
    Status status;
    for (const vfa_backend *id = order_of(problem.backend); *id != VFA_BACKEND_AUTO; id++) {
        const Backend *candidate = find_backend(*id);
        status = usable(*candidate, problem, device);
        if (status.ok()) {
            *backend = candidate;
            return {};
        }
    }
    return status; // with the last candidate's reason: the one that asks least of the machine
}

namespace {

void describe_named(const Backend &backend, int32_t device, vfa_backend_info &info) noexcept {
    info = {};
    info.resolved = backend.id();
    if (const char *reason = backend.unavailable(device)) {
        std::snprintf(info.reason, sizeof info.reason, "%s", reason);
        return;
    }
    info.available = 1;
    backend.describe(device, info);
}

} // namespace

void describe_backend(vfa_backend id, int32_t device, vfa_backend_info &info) noexcept {
    if (const Backend *named = find_backend(id)) return describe_named(*named, device, info);
    for (const vfa_backend *next = order_of(id); *next != VFA_BACKEND_AUTO; next++) {
        describe_named(*find_backend(*next), device, info);
        if (info.available) return;
    }
}

} // namespace vfa
