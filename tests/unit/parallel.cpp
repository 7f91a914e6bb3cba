// core/parallel
#include "core/parallel.hpp"

#include "doctest.hpp"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

using namespace vfa;

namespace {

// A job that checks what Parallel promises.
struct Job {
    explicit Job(uint32_t count, uint32_t max_workers) : calls(count), busy(max_workers) {}

    std::vector<std::atomic<int>> calls; // for each index
    std::vector<std::atomic<int>> busy;  // for each worker
    std::atomic<int> bad_index{0}, bad_worker{0}, shared_worker{0}, returned{0};

    static void call(void *self, uint32_t index, uint32_t worker) {
        static_cast<Job *>(self)->work(index, worker);
    }
    void work(uint32_t index, uint32_t worker) {
        if (index >= calls.size()) {
            bad_index++;
            return;
        }
        calls[index]++;
        if (worker >= busy.size()) {
            bad_worker++;
            return;
        }
        if (busy[worker]++ != 0) shared_worker++;
        if (index % 16 == 0) std::this_thread::yield(); // so that others come in between
        busy[worker]--;
        returned++;
    }

    void check() const {
        CHECK(bad_index == 0);
        CHECK(bad_worker == 0);
        CHECK(shared_worker == 0);
        CHECK(returned == (int)calls.size()); // run() came back only after all
        int wrong = 0;
        for (const std::atomic<int> &n : calls) wrong += n != 1;
        CHECK(wrong == 0);
    }
};

} // namespace

TEST_CASE("parallel: each index once, workers apart") {
    for (const uint32_t threads : {1u, 2u, 3u, 8u}) {
        Parallel parallel(threads, vfa_hooks{});
        CHECK(parallel.max_workers() >= 1);
        CHECK(parallel.max_workers() <= threads);
        for (const uint32_t count : {0u, 1u, 2u, 3u, 7u, 64u, 5000u})
            for (int round = 0; round < 20; round++) {
                CAPTURE(threads);
                CAPTURE(count);
                Job job(count, parallel.max_workers());
                parallel.run(count, Job::call, &job);
                job.check();
            }
    }
}

TEST_CASE("parallel: threads work at the same time") {
    Parallel parallel(2, vfa_hooks{});
    REQUIRE(parallel.max_workers() == 2);
    // Both calls wait until the other has come: alone, the caller would wait in vain.
    struct Meeting {
        std::atomic<int> arrived{0}, met{0};
        static void call(void *self, uint32_t, uint32_t) {
            Meeting &meeting = *static_cast<Meeting *>(self);
            meeting.arrived++;
            const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
            while (meeting.arrived < 2 && std::chrono::steady_clock::now() < limit)
                std::this_thread::yield();
            if (meeting.arrived == 2) meeting.met++;
        }
    } meeting;
    parallel.run(2, Meeting::call, &meeting);
    CHECK(meeting.met == 2);
}

TEST_CASE("parallel: many callers at once") {
    Parallel parallel(3, vfa_hooks{});
    std::vector<std::unique_ptr<Job>> jobs;
    std::vector<std::thread> callers;
    for (int caller = 0; caller < 8; caller++)
        for (int n = 0; n < 30; n++)
            jobs.push_back(std::make_unique<Job>((uint32_t)(1 + 37 * n), parallel.max_workers()));
    for (size_t caller = 0; caller < 8; caller++)
        callers.emplace_back([&, caller] {
            for (size_t n = 0; n < 30; n++) {
                Job &job = *jobs[caller * 30 + n];
                parallel.run((uint32_t)job.calls.size(), Job::call, &job);
            }
        });
    for (std::thread &thread : callers) thread.join();
    for (const auto &job : jobs) job->check();
}

TEST_CASE("parallel: a job may run jobs") {
    Parallel parallel(3, vfa_hooks{});
    struct Outer {
        Parallel &parallel;
        std::vector<std::unique_ptr<Job>> inner;
        static void call(void *self, uint32_t index, uint32_t) {
            Outer &outer = *static_cast<Outer *>(self);
            Job &job = *outer.inner[index];
            outer.parallel.run((uint32_t)job.calls.size(), Job::call, &job);
        }
    } outer{parallel, {}};
    for (uint32_t n = 0; n < 40; n++)
        outer.inner.push_back(std::make_unique<Job>(n, parallel.max_workers()));
    parallel.run((uint32_t)outer.inner.size(), Outer::call, &outer);
    for (const auto &job : outer.inner) job->check();
}

TEST_CASE("parallel: the caller's own threads") {
    struct Hook {
        int calls = 0;
        static void run(void *user, uint32_t count, void (*fn)(void *, uint32_t, uint32_t),
                        void *job) {
            static_cast<Hook *>(user)->calls++;
            for (uint32_t i = count; i-- > 0;) fn(job, i, i % 5);
        }
    } hook;
    vfa_hooks hooks{};
    hooks.user = &hook;
    hooks.parallel = Hook::run;
    hooks.max_workers = 5;
    Parallel parallel(64, hooks); // 64 is not asked for: no thread is started
    CHECK(parallel.max_workers() == 5);
    Job job(100, 5);
    parallel.run(100, Job::call, &job);
    job.check();
    CHECK(hook.calls == 1);
    parallel.run(0, Job::call, nullptr);
    CHECK(hook.calls <= 2); // an empty job need not reach the hook, and calls nothing
}

#if defined(__linux__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) &&       \
    !defined(VFA_TESTS_SANITIZED)
TEST_CASE("parallel: works with as many threads as can be started") {
    constexpr uint32_t kWanted = 200;
    // In a child, as the limit is for the whole process: room for a few stacks of 8 MiB.
    std::fflush(stdout);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        unsigned long pages = 0;
        if (std::FILE *file = std::fopen("/proc/self/statm", "r")) {
            if (std::fscanf(file, "%lu", &pages) != 1) pages = 0;
            std::fclose(file);
        }
        const rlim_t now = pages * (rlim_t)sysconf(_SC_PAGESIZE);
        const rlimit limit = {now + (100u << 20), now + (100u << 20)};
        if (pages == 0 || setrlimit(RLIMIT_AS, &limit) != 0) _exit(2);
        Parallel parallel(kWanted, vfa_hooks{});
        if (parallel.max_workers() == kWanted) _exit(2);
        Job job(500, parallel.max_workers());
        parallel.run(500, Job::call, &job);
        _exit(parallel.max_workers() >= 1 && job.returned == 500 && job.shared_worker == 0 ? 0 : 1);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    if (WEXITSTATUS(status) == 2) {
        vfa_test::skip("a limit on address space does not keep threads from starting here");
        return;
    }
    CHECK(WEXITSTATUS(status) == 0);
}
#else
TEST_CASE("parallel: works with as many threads as can be started") {
    vfa_test::skip("a sanitizer's memory does not fit under a limit on address space");
}
#endif
