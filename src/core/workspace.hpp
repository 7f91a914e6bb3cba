// workspace.hpp - scratch memory that forward calls borrow, so that they allocate nothing.
#pragma once
#include <cstddef>
#include <mutex>

#include "core/memory.hpp"

namespace vfa {

struct Block;

// Blocks of memory, all of the size that the largest plan so far asked for. A plan reserves one
// when it is made; only calls that run at the same time make the pool grow, each once.
class WorkspacePool {
public:
    static constexpr size_t kAlignment = 64; // a cache line, and the widest vector

    explicit WorkspacePool(Memory &memory) noexcept : memory_(memory) {}
    ~WorkspacePool();

    // From now on at least one idle block of this size exists. Throws std::bad_alloc.
    void reserve(size_t bytes);

    // A borrowed block; back in the pool when destroyed.
    class Lease {
    public:
        Lease(WorkspacePool &pool, size_t bytes);
        ~Lease();
        Lease(const Lease &) = delete;
        Lease &operator=(const Lease &) = delete;
        std::byte *data() const noexcept;

    private:
        WorkspacePool &pool_;
        Block *block_;
    };

private:
    Memory &memory_;
    std::mutex mutex_;
    Block *idle_ = nullptr; // largest first

    Block *make(size_t bytes);
    Block *take_largest() noexcept;
    void put_back(Block *block) noexcept;
    void free(Block *block) noexcept;
};

} // namespace vfa
