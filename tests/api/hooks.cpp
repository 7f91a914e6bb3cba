// The caller's own memory, threads and log.
#include "api.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <thread>

using namespace vfa_test;

namespace {

// ------------------------------------------------------------------------------------- memory --

// Counts, checks that each block is given back as it was taken, and can fail one allocation.
struct Memory {
    std::mutex mutex;
    std::map<void *, size_t> blocks;
    size_t calls = 0;
    size_t fail_at = SIZE_MAX; // the number of the call that fails
    size_t wrong = 0;

    vfa_hooks hooks() {
        vfa_hooks hooks = no_hooks();
        hooks.user = this;
        hooks.alloc = [](void *user, size_t size, size_t alignment) -> void * {
            Memory &self = *static_cast<Memory *>(user);
            const std::lock_guard lock(self.mutex);
            if (self.calls++ == self.fail_at) return nullptr;
            if (alignment == 0 || alignment > 4096 || (alignment & (alignment - 1))) ++self.wrong;
            const size_t multiple = std::max(alignment, sizeof(void *));
            void *block = std::aligned_alloc(multiple, (size + multiple - 1) / multiple * multiple);
            self.blocks[block] = size;
            return block;
        };
        hooks.free = [](void *user, void *block, size_t size) {
            Memory &self = *static_cast<Memory *>(user);
            const std::lock_guard lock(self.mutex);
            const auto found = self.blocks.find(block);
            if (found == self.blocks.end() || found->second != size) {
                ++self.wrong;
                return;
            }
            self.blocks.erase(found);
            std::free(block);
        };
        return hooks;
    }
};

// ------------------------------------------------------------------------------------ threads --

using Job = void (*)(void *job, uint32_t i, uint32_t worker);
constexpr uint32_t WORKERS = 3;

void in_reverse(void *, uint32_t count, Job fn, void *job) {
    for (uint32_t i = count; i-- > 0;) fn(job, i, i % WORKERS);
}

void on_other_threads(void *, uint32_t count, Job fn, void *job) {
    std::atomic<uint32_t> next{0};
    std::vector<std::thread> threads;
    for (uint32_t worker = 0; worker < WORKERS; ++worker)
        threads.emplace_back([&, worker] {
            for (uint32_t i; (i = next++) < count;) fn(job, i, worker);
        });
    for (std::thread &thread : threads) thread.join();
}

// One thread has all the work, and starts late.
void late(void *, uint32_t count, Job fn, void *job) {
    std::thread([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        for (uint32_t i = 0; i < count; ++i) fn(job, i, WORKERS - 1);
    }).join();
}

// Enough work for many pieces.
template <class T> Batch<T> large_batch(vfa_backend backend) {
    Batch<T> batch(backend);
    batch.cu_q = {0, 1, 1, 150, 400};
    batch.cu_k = {0, 7, 9, 160, 700};
    batch.fill();
    return batch;
}

constexpr vfa_backend HOST_BACKENDS[] = {VFA_BACKEND_AUTO, VFA_BACKEND_MATH,
                                         VFA_BACKEND_MEMORY_EFFICIENT};

} // namespace

TEST_CASE("memory: all is given back, and forward takes none") {
    Memory memory;
    const vfa_hooks hooks = memory.hooks();
    {
        Context ctx = make_context(nullptr, &hooks);
        for (vfa_backend backend : HOST_BACKENDS) {
            CAPTURE(name(backend));
            auto batch = large_batch<uint16_t>(backend);
            const Plan plan = batch.make_plan(ctx.get());
            CHECK(memory.calls > 0);
            const size_t before = memory.calls;
            for (int i = 0; i < 3; ++i) CHECK(batch.forward(plan.get()) == VFA_OK);
            CHECK(memory.calls == before);
        }
        // A plan goes on without its context's handle.
        auto batch = large_batch<float>(VFA_BACKEND_AUTO);
        const Plan plan = batch.make_plan(ctx.get());
        ctx.reset();
        CHECK(batch.forward(plan.get()) == VFA_OK);
        CHECK(!memory.blocks.empty());
    }
    CHECK(memory.blocks.empty());
    CHECK(memory.wrong == 0);
}

TEST_CASE("memory: an update within what was reserved takes none") {
    Memory memory;
    const vfa_hooks hooks = memory.hooks();
    const Context ctx = make_context(nullptr, &hooks);
    // Math is left out: it keeps a row of scores, and takes more for longer ones.
    for (vfa_backend backend : {VFA_BACKEND_AUTO, VFA_BACKEND_MEMORY_EFFICIENT}) {
        CAPTURE(name(backend));
        auto batch = large_batch<float>(backend);
        batch.desc.reserve_seqs = 8;
        const Plan plan = batch.make_plan(ctx.get());
        const size_t before = memory.calls;
        batch.cu_q = {0, 100, 120, 121, 300, 500};
        batch.cu_k = {0, 200, 220, 221, 400, 800};
        batch.fill();
        CHECK(vfa_plan_update(plan.get(), batch.cu_q.data(), batch.cu_q.size(), batch.cu_k.data(),
                              batch.cu_k.size(), nullptr, 0, nullptr, 0, nullptr) == VFA_OK);
        CHECK(batch.forward(plan.get()) == VFA_OK);
        CHECK(memory.calls == before);
    }
}

TEST_CASE("memory: each allocation may fail") {
    for (vfa_backend backend : HOST_BACKENDS) {
        CAPTURE(name(backend));
        size_t failures = 0;
        for (bool done = false; !done; ++failures) {
            REQUIRE(failures < 1000);
            Memory memory;
            memory.fail_at = failures;
            const vfa_hooks hooks = memory.hooks();
            auto batch = large_batch<uint16_t>(backend);
            const std::string before = bits(batch);
            vfa_context *ctx = nullptr;
            vfa_plan *plan = nullptr;
            vfa_error error{VFA_OK, ""};
            vfa_status status = vfa_context_create(nullptr, &hooks, &ctx, &error);
            if (status == VFA_OK) status = batch.create(ctx, &plan, &error);
            // No more of them than these two calls make: forward has none.
            done = memory.calls <= failures;
            if (done) {
                CHECK(status == VFA_OK);
                CHECK(batch.forward(plan) == VFA_OK);
                CHECK(memory.calls <= failures);
            } else {
                CHECK(status == VFA_ERROR_OUT_OF_MEMORY);
                CHECK(error.status == status);
                CHECK(error.message[0] != '\0');
                CHECK(plan == nullptr);
                CHECK(bits(batch) == before);
            }
            vfa_plan_destroy(plan);
            vfa_context_destroy(ctx);
            CHECK(memory.blocks.empty());
            CHECK(memory.wrong == 0);
        }
        CHECK(failures > 2); // the hook was used
    }
}

TEST_CASE("memory: an update that fails leaves the plan as it was") {
    for (size_t failing = 0;; ++failing) {
        REQUIRE(failing < 1000);
        Memory memory;
        const vfa_hooks hooks = memory.hooks();
        const Context ctx = make_context(nullptr, &hooks);
        Batch<float> small;
        const Plan plan = small.make_plan(ctx.get());
        REQUIRE(small.forward(plan.get()) == VFA_OK);
        const std::string want = bits(small);

        const auto large = large_batch<float>(VFA_BACKEND_AUTO);
        memory.fail_at = memory.calls + failing;
        const vfa_status status =
            vfa_plan_update(plan.get(), large.cu_q.data(), large.cu_q.size(), large.cu_k.data(),
                            large.cu_k.size(), nullptr, 0, nullptr, 0, nullptr);
        if (status == VFA_OK) break;
        CHECK(status == VFA_ERROR_OUT_OF_MEMORY);
        small.fill();
        REQUIRE(small.forward(plan.get()) == VFA_OK);
        CHECK(bits(small) == want);
    }
}

TEST_CASE("threads: order and place of the work do not change a bit") {
    for (vfa_backend backend : HOST_BACKENDS) {
        CAPTURE(name(backend));
        auto batch = large_batch<uint16_t>(backend);
        vfa_context_desc one_thread = context_desc();
        one_thread.num_threads = 1;
        Context ctx = make_context(&one_thread);
        REQUIRE(batch.forward(batch.make_plan(ctx.get()).get()) == VFA_OK);
        const std::string want = bits(batch);

        for (auto parallel : {in_reverse, on_other_threads, late}) {
            vfa_hooks hooks = no_hooks();
            hooks.parallel = parallel;
            hooks.max_workers = WORKERS;
            ctx = make_context(nullptr, &hooks);
            batch.fill();
            REQUIRE(batch.forward(batch.make_plan(ctx.get()).get()) == VFA_OK);
            CHECK(bits(batch) == want);
        }
        ctx = make_context(); // vfa's own threads
        batch.fill();
        REQUIRE(batch.forward(batch.make_plan(ctx.get()).get()) == VFA_OK);
        CHECK(bits(batch) == want);
    }
}

TEST_CASE("threads: the hook is used, with workers in its range") {
    struct Seen {
        std::atomic<uint32_t> calls{0}, pieces{0};
    } seen;
    vfa_hooks hooks = no_hooks();
    hooks.user = &seen;
    hooks.max_workers = WORKERS;
    hooks.parallel = [](void *user, uint32_t count, Job fn, void *job) {
        static_cast<Seen *>(user)->calls++;
        static_cast<Seen *>(user)->pieces += count;
        in_reverse(nullptr, count, fn, job);
    };
    const Context ctx = make_context(nullptr, &hooks);
    auto batch = large_batch<float>(VFA_BACKEND_AUTO);
    CHECK(batch.forward(batch.make_plan(ctx.get()).get()) == VFA_OK);
    CHECK(seen.calls > 0);
    CHECK(seen.pieces > 1);
}

TEST_CASE("threads: no two pieces of work write the same element") {
    struct Written {
        Batch<float> *batch;
        std::vector<int> times;
    };
    for (vfa_backend backend : HOST_BACKENDS)
        for (bool large : {false, true}) {
            CAPTURE(name(backend));
            CAPTURE(large);
            auto batch = large ? large_batch<float>(backend) : Batch<float>(backend);
            Written written{&batch, std::vector<int>(batch.o.size())};
            vfa_hooks hooks = no_hooks();
            hooks.user = &written;
            hooks.max_workers = 1;
            hooks.parallel = [](void *user, uint32_t count, Job fn, void *job) {
                Written &w = *static_cast<Written *>(user);
                constexpr float untouched = 12345;
                for (uint32_t i = 0; i < count; ++i) {
                    std::fill(w.batch->o.begin(), w.batch->o.end(), untouched);
                    fn(job, i, 0);
                    for (size_t e = 0; e < w.times.size(); ++e)
                        w.times[e] += w.batch->o[e] != untouched;
                }
            };
            const Context ctx = make_context(nullptr, &hooks);
            REQUIRE(batch.forward(batch.make_plan(ctx.get()).get()) == VFA_OK);
            CHECK(std::count(written.times.begin(), written.times.end(), 1) ==
                  long(written.times.size()));
        }
}

TEST_CASE("threads: one plan in many threads at once") {
    for (vfa_backend backend : HOST_BACKENDS) {
        CAPTURE(name(backend));
        const Context ctx = make_context();
        auto batch = large_batch<uint16_t>(backend);
        const Plan plan = batch.make_plan(ctx.get());
        REQUIRE(batch.forward(plan.get()) == VFA_OK);
        const std::string want = bits(batch);

        std::atomic<int> same{0};
        std::vector<std::thread> threads;
        for (int t = 0; t < 4; ++t)
            threads.emplace_back([&] {
                auto mine = large_batch<uint16_t>(backend);
                for (int i = 0; i < 3; ++i)
                    same += mine.forward(plan.get()) == VFA_OK && bits(mine) == want;
            });
        for (std::thread &thread : threads) thread.join();
        CHECK(same == 4 * 3);
    }
}

TEST_CASE("log: sentences, up to the level") {
    struct Lines {
        std::mutex mutex;
        std::vector<std::pair<vfa_log_level, std::string>> lines;
    };
    vfa_hooks hooks = no_hooks();
    hooks.log = [](void *user, vfa_log_level level, const char *message) {
        Lines &self = *static_cast<Lines *>(user);
        const std::lock_guard lock(self.mutex);
        self.lines.emplace_back(level, message);
    };
    for (vfa_log_level level : {VFA_LOG_NONE, VFA_LOG_ERROR, VFA_LOG_WARN, VFA_LOG_INFO}) {
        CAPTURE(level);
        Lines seen;
        hooks.user = &seen;
        vfa_context_desc desc = context_desc();
        desc.log_level = level;
        const Context ctx = make_context(&desc, &hooks);
        Batch<float> batch;
        CHECK(batch.forward(batch.make_plan(ctx.get()).get()) == VFA_OK);
        batch.desc.head_dim = 0;
        vfa_plan *plan = nullptr;
        CHECK(batch.create(ctx.get(), &plan) == VFA_ERROR_INVALID_ARGUMENT);

        size_t errors = 0, infos = 0;
        for (const auto &[line_level, line] : seen.lines) {
            CHECK(line_level > VFA_LOG_NONE);
            CHECK(line_level <= level);
            CHECK(line.size() > 10);
            CHECK(line.find('\n') == std::string::npos);
            errors += line_level == VFA_LOG_ERROR;
            infos += line_level == VFA_LOG_INFO;
        }
        CHECK(errors == (level >= VFA_LOG_ERROR));
        CHECK((infos > 0) == (level >= VFA_LOG_INFO));
    }
}
