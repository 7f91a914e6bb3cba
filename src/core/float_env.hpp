// float_env.hpp - kernels compute in the default floating-point environment, whatever the host set.
#pragma once
#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace vfa {

// Default rounding, no flush to zero, no traps while it lives; then everything as it was, sticky
// exception flags included.
class DefaultFloatEnv {
public:
#if defined(__x86_64__)
    DefaultFloatEnv() noexcept : saved_(_mm_getcsr()) { _mm_setcsr(0x1f80); } // the reset value
    ~DefaultFloatEnv() { _mm_setcsr(saved_); }
#elif defined(__aarch64__)
    DefaultFloatEnv() noexcept {
        asm volatile("mrs %0, fpcr\n\tmrs %1, fpsr" : "=r"(saved_), "=r"(flags_));
        asm volatile("msr fpcr, %0" ::"r"((uint64_t)0));
    }
    ~DefaultFloatEnv() { asm volatile("msr fpcr, %0\n\tmsr fpsr, %1" ::"r"(saved_), "r"(flags_)); }
#else
    DefaultFloatEnv() noexcept {}
    ~DefaultFloatEnv() {}
#endif
    DefaultFloatEnv(const DefaultFloatEnv &) = delete;
    DefaultFloatEnv &operator=(const DefaultFloatEnv &) = delete;

private:
#if defined(__x86_64__)
    uint32_t saved_;
#elif defined(__aarch64__)
    uint64_t saved_, flags_;
#endif
};

} // namespace vfa
