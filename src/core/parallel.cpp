#include "core/parallel.hpp"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include <unistd.h>

namespace vfa {

struct Parallel::Job {
    Function function;
    void *argument;
    uint32_t count;
    std::atomic<uint32_t> next{0}; // first index that nobody has taken
    uint32_t workers = 1; // workers ever let in; the caller is worker 0. Under the team's mutex
    uint32_t inside = 0;  // helpers at work. Under the team's mutex
    Job *older = nullptr;

    void work_off(uint32_t worker) noexcept {
        for (;;) {
            const uint32_t index = next.fetch_add(1, std::memory_order_relaxed);
            if (index >= count) return;
            function(argument, index, worker);
        }
    }
};

struct Parallel::Team {
    const pid_t process = getpid();
    uint32_t max_workers = 1;
    std::vector<std::thread> threads;
    std::mutex mutex;
    std::condition_variable wake;    // threads wait here for jobs
    std::condition_variable settled; // callers wait here for their job's helpers to leave
    Job *jobs = nullptr;             // jobs that may still want helpers, newest first
    bool stopping = false;

    explicit Team(uint32_t helpers) {
        max_workers = helpers + 1; // before a thread can read it
        threads.reserve(helpers);
        try {
            while (threads.size() < helpers) threads.emplace_back([this] { serve(); });
        } catch (const std::exception &) { // no more threads to be had: go on with those that run
        }
    }
    ~Team() {
        {
            std::lock_guard lock(mutex);
            stopping = true;
        }
        wake.notify_all();
        for (std::thread &thread : threads) thread.join();
    }

    void serve() noexcept {
        std::unique_lock lock(mutex);
        for (;;) {
            Job *job = jobs;
            // A job wants help while it has untaken indices and a worker number to give.
            while (job && (job->next.load(std::memory_order_relaxed) >= job->count ||
                           job->workers == max_workers))
                job = job->older;
            if (!job) {
                if (stopping) return;
                wake.wait(lock);
                continue;
            }
            const uint32_t worker = job->workers++;
            job->inside++;
            lock.unlock();
            job->work_off(worker);
            lock.lock();
            if (--job->inside == 0) settled.notify_all();
        }
    }

    void run(Job &job) {
        {
            std::lock_guard lock(mutex);
            job.older = jobs;
            jobs = &job;
        }
        if (job.count == 2)
            wake.notify_one();
        else
            wake.notify_all();
        job.work_off(0);
        std::unique_lock lock(mutex);
        Job **link = &jobs;
        while (*link != &job) link = &(*link)->older;
        *link = job.older; // no new helper comes in
        settled.wait(lock, [&] { return job.inside == 0; });
    }
};

Parallel::Parallel(uint32_t threads, const vfa_hooks &hooks) noexcept : hooks_(hooks) {
    if (hooks_.parallel) {
        max_workers_ = hooks_.max_workers;
        return;
    }
    if (threads == 1) return;
    try {
        team_ = new Team(threads - 1);
        max_workers_ = (uint32_t)team_->threads.size() + 1;
    } catch (const std::exception &) { // no memory for a team: the caller works alone
    }
}

// In a child process the team's threads do not exist, and its locks may be held by one of them for
// ever. So it is left alone there.
Parallel::~Parallel() {
    if (has_team()) delete team_;
}

bool Parallel::has_team() const noexcept { return team_ && team_->process == getpid(); }

void Parallel::run(uint32_t count, Function function, void *argument) {
    if (count == 0) return;
    if (hooks_.parallel) {
        hooks_.parallel(hooks_.user, count, function, argument);
        return;
    }
    Job job{function, argument, count};
    if (count > 1 && has_team())
        team_->run(job);
    else
        job.work_off(0);
}

} // namespace vfa
