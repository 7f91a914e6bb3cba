// parallel.hpp - a parallel for over the context's own threads, or over the caller's.
#pragma once
#include <cstdint>

#include <vfa/vfa.h>

namespace vfa {

class Parallel {
public:
    using Function = void (*)(void *job, uint32_t index, uint32_t worker);

    // hooks.parallel if there is one; else threads - 1 threads of its own, started here (fewer,
    // down to none, where they cannot be started), beside the calling thread.
    Parallel(uint32_t threads, const vfa_hooks &hooks) noexcept;
    ~Parallel();
    Parallel(const Parallel &) = delete;
    Parallel &operator=(const Parallel &) = delete;

    // Most workers that one run can have at a time.
    uint32_t max_workers() const noexcept { return max_workers_; }

    // Calls function(job, index, worker) once for every index below count; returns when all have
    // returned. Calls that run at the same time have different workers, below max_workers(). Any
    // number of threads may call run at once: each takes part in its own job. Allocates nothing.
    void run(uint32_t count, Function function, void *job);

private:
    struct Job;  // one run(), on its caller's stack
    struct Team; // own threads, and where they wait

    // Threads do not follow into a child process: there this is no team.
    bool has_team() const noexcept;

    vfa_hooks hooks_;
    uint32_t max_workers_ = 1;
    Team *team_ = nullptr;
};

} // namespace vfa
