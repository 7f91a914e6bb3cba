#include "core/cpu_count.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#ifdef __linux__
#include <sched.h>
#endif

namespace vfa {

namespace {

uint32_t whole_cpus(long long quota, long long period) {
    if (quota <= 0 || period <= 0) return 0;
    return (uint32_t)std::clamp<long long>(quota / period, 1, 1 << 16);
}

bool read_line(const char *path, char *line, int size) {
    std::FILE *file = std::fopen(path, "re");
    if (!file) return false;
    const bool read = std::fgets(line, size, file) != nullptr;
    std::fclose(file);
    return read;
}

// The tightest quota from this process's own cgroup up to the root; 0: none.
uint32_t cgroup_v2_cpus() {
    std::FILE *file = std::fopen("/proc/self/cgroup", "re");
    if (!file) return 0;
    char group[1024] = "", line[1024];
    while (std::fgets(line, sizeof line, file))
        if (std::strncmp(line, "0::", 3) == 0) {
            line[std::strcspn(line, "\n")] = '\0';
            std::memcpy(group, line + 3, std::strlen(line + 3) + 1);
        }
    std::fclose(file);

    uint32_t least = 0;
    for (;;) {
        char path[1100];
        std::snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", group);
        if (read_line(path, line, sizeof line))
            if (const uint32_t cpus = parse_cpu_max(line); cpus && (!least || cpus < least))
                least = cpus;
        char *slash = std::strrchr(group, '/');
        if (!slash) return least;
        *slash = '\0';
    }
}

uint32_t cgroup_v1_cpus() {
    char quota[64], period[64];
    if (!read_line("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", quota, sizeof quota) ||
        !read_line("/sys/fs/cgroup/cpu/cpu.cfs_period_us", period, sizeof period))
        return 0;
    return whole_cpus(std::atoll(quota), std::atoll(period));
}

uint32_t affinity_cpus() {
#ifdef __linux__
    // The mask must be at least as large as the kernel's: grow until it takes it.
    for (int cpus = 1024; cpus <= 1 << 16; cpus *= 4) {
        cpu_set_t *mask = CPU_ALLOC(cpus);
        if (!mask) break;
        const size_t bytes = CPU_ALLOC_SIZE(cpus);
        const int count = sched_getaffinity(0, bytes, mask) == 0 ? CPU_COUNT_S(bytes, mask) : 0;
        CPU_FREE(mask);
        if (count > 0) return (uint32_t)count;
    }
#endif
    return std::max(1u, std::thread::hardware_concurrency());
}

} // namespace

uint32_t parse_cpu_max(const char *line) noexcept {
    long long quota = 0, period = 0;
    if (std::sscanf(line, "%lld %lld", &quota, &period) != 2) return 0; // "max ..."
    return whole_cpus(quota, period);
}

uint32_t allowed_cpus() noexcept {
    uint32_t cpus = affinity_cpus();
    for (const uint32_t quota : {cgroup_v2_cpus(), cgroup_v1_cpus()})
        if (quota) cpus = std::min(cpus, quota);
    return cpus;
}

} // namespace vfa
