// cpu_count.hpp - how many threads this process may keep busy.
#pragma once
#include <cstdint>

namespace vfa {

// The smaller of the affinity mask and the cgroup CPU quota (v1 or v2, rounded down), at least 1.
uint32_t allowed_cpus() noexcept;

// A cgroup v2 `cpu.max` line ("150000 100000", "max 100000") as whole CPUs, at least 1; 0: no
// limit.
uint32_t parse_cpu_max(const char *line) noexcept;

} // namespace vfa
