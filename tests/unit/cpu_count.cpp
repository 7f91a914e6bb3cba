// core/cpu_count
#include "core/cpu_count.hpp"

#include "doctest.hpp"

#include <thread>

#ifdef __linux__
#include <sched.h>
#endif

using namespace vfa;

TEST_CASE("cpu_count: parse_cpu_max") {
    struct {
        const char *line;
        uint32_t cpus;
    } const table[] = {
        {"max 100000\n", 0},         // no limit
        {"max", 0},                  //
        {"", 0},                     // nothing to read
        {"\n", 0},                   //
        {"garbage", 0},              //
        {"100000", 0},               // no period
        {"100000 100000\n", 1},      //
        {"150000 100000\n", 1},      // rounded down
        {"199999 100000\n", 1},      //
        {"200000 100000\n", 2},      //
        {"50000 100000\n", 1},       // half a CPU is one thread
        {"1 1000000\n", 1},          //
        {"800000 100000\n", 8},      //
        {"25000 5000\n", 5},         // another period
        {"0 100000\n", 0},           // nonsense is no limit
        {"-1 100000\n", 0},          //
        {"100000 0\n", 0},           //
        {"100000 -5\n", 0},          //
        {"9000000000000 1\n", 65536} // more than a cpu set has
    };
    for (const auto &row : table) {
        CAPTURE(row.line);
        CHECK(parse_cpu_max(row.line) == row.cpus);
    }
}

TEST_CASE("cpu_count: at least 1, at most the affinity mask") {
    const uint32_t cpus = allowed_cpus();
    CHECK(cpus >= 1);
#ifdef __linux__
    cpu_set_t before;
    if (sched_getaffinity(0, sizeof before, &before) != 0) {
        vfa_test::skip("sched_getaffinity does not take a cpu_set_t of 1024 CPUs here");
        return;
    }
    CHECK(cpus <= (uint32_t)CPU_COUNT(&before));

    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &before)) {
            CPU_SET(cpu, &one);
            break;
        }
    if (sched_setaffinity(0, sizeof one, &one) != 0) {
        vfa_test::skip("sched_setaffinity is not allowed here");
        return;
    }
    CHECK(allowed_cpus() == 1);
    CHECK(sched_setaffinity(0, sizeof before, &before) == 0);
    CHECK(allowed_cpus() == cpus);
#endif
}
