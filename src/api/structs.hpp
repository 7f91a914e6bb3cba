// structs.hpp - structs that begin with struct_size, between callers and a library of different
// ages.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/status.hpp"
#include "problem/validate.hpp"

namespace vfa {

// No struct of this API will ever be larger; a larger struct_size is garbage.
constexpr size_t kMaxStructSize = 65536;

template <class T> constexpr T defaults() {
    T value{};
    value.struct_size = sizeof(T);
    return value;
}
template <> constexpr vfa_attn_desc defaults() {
    vfa_attn_desc desc{};
    desc.struct_size = sizeof desc;
    desc.window_left = desc.window_right = -1;
    return desc;
}

static inline Status check_struct_size(const char *name, const char *init, size_t size) {
    if (size < sizeof(uint32_t) || size > kMaxStructSize)
        return fail(VFA_ERROR_INVALID_ARGUMENT, "%s.struct_size is %zu: fill it with %s", name,
                    size, init);
    return {};
}

// vfa_*_init: defaults in the caller's `size` bytes.
template <class T> Status init_struct(const char *name, T *caller, size_t size) {
    VFA_TRY(validate_pointer(name, caller));
    if (size < sizeof(uint32_t) || size > kMaxStructSize)
        return fail(VFA_ERROR_INVALID_ARGUMENT, "size is %zu, but must be sizeof *%s", size, name);
    T full = defaults<T>();
    full.struct_size = (uint32_t)size;
    std::memset(static_cast<void *>(caller), 0, size);
    std::memcpy(static_cast<void *>(caller), &full, size < sizeof full ? size : sizeof full);
    return {};
}

// What the caller's struct covers, over the defaults.
template <class T>
Status read_struct(const char *name, const char *init, const T *caller, T *full) {
    const size_t size = caller->struct_size;
    VFA_TRY(check_struct_size(name, init, size));
    for (size_t i = sizeof(T); i < size; i++)
        if (reinterpret_cast<const unsigned char *>(caller)[i] != 0)
            return fail(VFA_ERROR_INVALID_ARGUMENT,
                        "%s.struct_size is %zu and byte %zu is set, but this vfa knows %zu bytes",
                        name, size, i, sizeof(T));
    *full = defaults<T>();
    std::memcpy(static_cast<void *>(full), caller, size < sizeof(T) ? size : sizeof(T));
    return {};
}

// full into as much as the caller's struct covers; the rest of the caller's bytes become 0.
template <class T> void write_struct(const T &full, T *caller) {
    const uint32_t size = caller->struct_size;
    std::memset(static_cast<void *>(caller), 0, size);
    std::memcpy(static_cast<void *>(caller), &full, size < sizeof full ? size : sizeof full);
    caller->struct_size = size;
}

} // namespace vfa
