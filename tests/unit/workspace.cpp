// core/workspace and core/memory
#include "core/workspace.hpp"

#include "doctest.hpp"

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

using namespace vfa;

namespace {

// An allocator that keeps books and can run out.
struct Books {
    std::mutex mutex;
    std::map<void *, size_t> blocks;
    int allocations = 0;
    int wrong_sizes = 0;
    int left = -1; // allocations until it fails; -1: never
    size_t alignment = 0;

    static void *alloc(void *user, size_t bytes, size_t alignment) {
        Books &books = *static_cast<Books *>(user);
        std::lock_guard lock(books.mutex);
        if (books.left == 0) return nullptr;
        if (books.left > 0) books.left--;
        books.allocations++;
        books.alignment = alignment;
        const size_t least = alignment < sizeof(void *) ? sizeof(void *) : alignment;
        void *block = std::aligned_alloc(least, (bytes + least - 1) / least * least);
        books.blocks[block] = bytes;
        return block;
    }
    static void free(void *user, void *block, size_t bytes) {
        Books &books = *static_cast<Books *>(user);
        std::lock_guard lock(books.mutex);
        const auto found = books.blocks.find(block);
        if (found == books.blocks.end() || found->second != bytes) books.wrong_sizes++;
        if (found != books.blocks.end()) books.blocks.erase(found);
        std::free(block);
    }
    vfa_hooks hooks() {
        vfa_hooks hooks{};
        hooks.user = this;
        hooks.alloc = alloc;
        hooks.free = free;
        return hooks;
    }
};

} // namespace

TEST_CASE("memory: through the hooks, with alignment and size") {
    Books books;
    Memory memory(books.hooks());
    for (const size_t alignment : {1u, 8u, 64u, 4096u}) {
        void *block = memory.allocate(100, alignment);
        CHECK((uintptr_t)block % alignment == 0);
        CHECK(books.alignment == alignment);
        CHECK(books.blocks.size() == 1);
        memory.deallocate(block, 100, alignment);
        CHECK(books.blocks.empty());
    }
    CHECK(books.wrong_sizes == 0);
    books.left = 0;
    CHECK_THROWS_AS((void)memory.allocate(100, 8), std::bad_alloc);
    CHECK(memory.is_equal(memory));
    CHECK_FALSE(memory.is_equal(*std::pmr::get_default_resource()));
}

TEST_CASE("memory: without hooks") {
    Memory memory{vfa_hooks{}};
    for (const size_t alignment : {1u, 64u, 4096u}) {
        void *block = memory.allocate(1000, alignment);
        CHECK((uintptr_t)block % alignment == 0);
        std::memset(block, 1, 1000);
        memory.deallocate(block, 1000, alignment);
    }
}

TEST_CASE("memory: Ref destroys with the last reference, once") {
    struct Thing : Counted {
        explicit Thing(int &n) : destroyed(n) {}
        int &destroyed;
        static void destroy(Thing *thing) noexcept {
            thing->destroyed++;
            delete thing;
        }
    };
    int destroyed = 0;
    {
        Ref<Thing> first = Ref<Thing>::adopt(new Thing(destroyed));
        {
            const Ref<Thing> second = Ref<Thing>::share(first.get());
            CHECK(second.get() == first.get());
        }
        CHECK(destroyed == 0);
        Ref<Thing> third = std::move(first);
        CHECK(first.get() == nullptr);
        Ref<Thing> other = Ref<Thing>::adopt(new Thing(destroyed));
        other = std::move(third);
        CHECK(destroyed <= 1); // the one that was replaced, at once or with its holder
    }
    CHECK(destroyed == 2);
    Thing *kept = Ref<Thing>::adopt(new Thing(destroyed)).detach();
    CHECK(destroyed == 2);
    CHECK(kept->release());
    Thing::destroy(kept);
}

TEST_CASE("workspace: aligned, large enough, without allocation after reserve") {
    Books books;
    Memory memory(books.hooks());
    {
        WorkspacePool pool(memory);
        CHECK(books.allocations == 0);
        for (const size_t bytes : {1u, 64u, 1000u, 100000u}) {
            pool.reserve(bytes);
            const int before = books.allocations;
            for (int n = 0; n < 3; n++) {
                WorkspacePool::Lease lease(pool, bytes);
                CHECK((uintptr_t)lease.data() % WorkspacePool::kAlignment == 0);
                std::memset(lease.data(), 0xff, bytes); // a sanitizer sees what is beyond the block
            }
            CHECK(books.allocations == before);
            pool.reserve(bytes / 2); // one that is large enough is there
            CHECK(books.allocations == before);
        }
        {
            WorkspacePool::Lease one(pool, 100000); // the reserved one
            const int before = books.allocations;
            WorkspacePool::Lease two(pool,
                                     100000); // at the same time: another one, made now or before
            CHECK(one.data() != two.data());
            std::memset(one.data(), 1, 100000);
            std::memset(two.data(), 2, 100000);
            CHECK(one.data()[99999] == std::byte{1});
            CHECK(books.allocations <= before + 1);
        }
        const int before = books.allocations;
        {
            WorkspacePool::Lease one(pool, 100000);
            WorkspacePool::Lease two(pool, 100000);
        }
        CHECK(books.allocations == before); // both are kept
    }
    CHECK(books.blocks.empty());
    CHECK(books.wrong_sizes == 0);
}

TEST_CASE("workspace: a lease of any size") {
    Books books;
    Memory memory(books.hooks());
    {
        WorkspacePool pool(memory);
        WorkspacePool::Lease none(pool, 0);
        WorkspacePool::Lease large(pool, 1 << 20); // never reserved
        std::memset(large.data(), 3, 1 << 20);
    }
    CHECK(books.blocks.empty());
}

TEST_CASE("workspace: out of memory is bad_alloc and leaves the pool as it was") {
    Books books;
    Memory memory(books.hooks());
    {
        WorkspacePool pool(memory);
        pool.reserve(100);
        books.left = 0;
        CHECK_THROWS_AS(pool.reserve(1000), std::bad_alloc);
        WorkspacePool::Lease lease(pool, 100);
        std::memset(lease.data(), 4, 100);
    }
    CHECK(books.blocks.empty());
}

TEST_CASE("workspace: leases from many threads never share a block") {
    Memory memory{vfa_hooks{}};
    WorkspacePool pool(memory);
    std::atomic<int> shared{0};
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 6; thread++)
        threads.emplace_back([&, thread] {
            for (int n = 0; n < 300; n++) {
                const size_t bytes = (size_t)(100 + 50 * (n % 7));
                if (n % 11 == 0) pool.reserve(bytes);
                WorkspacePool::Lease lease(pool, bytes);
                std::memset(lease.data(), thread, bytes);
                std::this_thread::yield();
                for (size_t i = 0; i < bytes; i++)
                    if (lease.data()[i] != (std::byte)thread) {
                        shared++;
                        break;
                    }
            }
        });
    for (std::thread &thread : threads) thread.join();
    CHECK(shared == 0);
}
