#include "kernels/cpu/x86/cpuid.hpp"

#include <cstdint>
#include <cstring>

#include <cpuid.h>

namespace vfa::cpu {

namespace {

struct Registers {
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Registers cpuid(unsigned leaf, unsigned subleaf = 0) {
    Registers r;
    __get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx); // zeros for an unknown leaf
    return r;
}

bool bit(unsigned word, int index) { return (word >> index) & 1; }

// Register state that the operating system saves (Intel SDM, XCR0). (XGETBV by its bytes, so
// that this file needs no flag of its own.)
uint64_t saved_state() {
    if (!bit(cpuid(1).ecx, 27)) return 0; // OSXSAVE
    uint32_t low, high;
    asm volatile(".byte 0x0f, 0x01, 0xd0" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

bool detect_avx2() {
    constexpr uint64_t sse_and_avx = 0x6;
    const Registers basic = cpuid(1), extended = cpuid(7);
    return (saved_state() & sse_and_avx) == sse_and_avx && bit(basic.ecx, 12) /* FMA */ &&
           bit(basic.ecx, 29) /* F16C */ && bit(extended.ebx, 5) /* AVX2 */;
}

bool detect_avx512() {
    constexpr uint64_t masks_and_zmm = 0xe0;
    const Registers extended = cpuid(7);
    return (saved_state() & masks_and_zmm) == masks_and_zmm && bit(extended.ebx, 16) /* F */ &&
           bit(extended.ebx, 17) /* DQ */ && bit(extended.ebx, 30) /* BW */ &&
           bit(extended.ebx, 31) /* VL */;
}

} // namespace

// Asked for each plan, and CPUID is slow: a virtual machine traps it. So the answers are kept.

bool has_avx2() noexcept {
    static const bool has = detect_avx2();
    return has;
}

bool has_avx512() noexcept {
    static const bool has = has_avx2() && detect_avx512();
    return has;
}

bool has_avx512bf16() noexcept {
    static const bool has = has_avx512() && bit(cpuid(7, 1).eax, 5);
    return has;
}

void processor_name(char (&name)[64]) noexcept {
    char text[49] = ""; // three leaves of 16 bytes
    for (unsigned leaf = 0; leaf < 3; leaf++) {
        const Registers r = cpuid(0x80000002u + leaf);
        std::memcpy(text + 16 * leaf, &r, 16);
    }
    text[48] = '\0';
    const char *start = text + std::strspn(text, " ");
    std::memcpy(name, start, std::strlen(start) + 1);
}

} // namespace vfa::cpu
