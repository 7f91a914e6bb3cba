#include "core/parallel.hpp"

#include <system_error>

namespace vfa {

struct Parallel::Job {
    Function function;
    void *argument;
    uint32_t count;
    std::atomic<uint32_t> next{0}; // first index that nobody has taken
    uint32_t workers = 1;          // workers ever let in; the caller is worker 0. Under mutex_
    uint32_t inside = 0;           // helpers at work. Under mutex_
    Job *older = nullptr;
};

Parallel::Parallel(uint32_t threads, const vfa_hooks &hooks) noexcept : hooks_(hooks) {
    if (hooks_.parallel) {
        max_workers_ = hooks_.max_workers;
        return;
    }
    try {
        threads_.reserve(threads - 1);
        while (threads_.size() + 1 < threads) threads_.emplace_back([this] { serve(); });
    } catch (const std::exception &) { // no more threads to be had: go on with those that run
    }
    max_workers_ = (uint32_t)threads_.size() + 1;
}

Parallel::~Parallel() {
    {
        std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    wake_.notify_all();
    for (std::thread &thread : threads_) thread.join();
}

void Parallel::work_off(Job &job, uint32_t worker) noexcept {
    for (;;) {
        const uint32_t index = job.next.fetch_add(1, std::memory_order_relaxed);
        if (index >= job.count) return;
        job.function(job.argument, index, worker);
    }
}

void Parallel::serve() noexcept {
    std::unique_lock lock(mutex_);
    for (;;) {
        Job *job = jobs_;
        // A job wants help while it has untaken indices and a worker number to give.
        while (job && (job->next.load(std::memory_order_relaxed) >= job->count ||
                       job->workers == max_workers_))
            job = job->older;
        if (!job) {
            if (stopping_) return;
            wake_.wait(lock);
            continue;
        }
        const uint32_t worker = job->workers++;
        job->inside++;
        lock.unlock();
        work_off(*job, worker);
        lock.lock();
        if (--job->inside == 0) settled_.notify_all();
    }
}

void Parallel::run(uint32_t count, Function function, void *argument) {
    if (count == 0) return;
    if (hooks_.parallel) {
        hooks_.parallel(hooks_.user, count, function, argument);
        return;
    }
    Job job{function, argument, count};
    const bool shared = count > 1 && !threads_.empty();
    if (shared) {
        {
            std::lock_guard lock(mutex_);
            job.older = jobs_;
            jobs_ = &job;
        }
        if (count == 2)
            wake_.notify_one();
        else
            wake_.notify_all();
    }
    work_off(job, 0);
    if (shared) {
        std::unique_lock lock(mutex_);
        Job **link = &jobs_;
        while (*link != &job) link = &(*link)->older;
        *link = job.older; // no new helper comes in
        settled_.wait(lock, [&] { return job.inside == 0; });
    }
}

} // namespace vfa
