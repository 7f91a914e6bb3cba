#include "core/workspace.hpp"

namespace vfa {

// In front of the memory it describes; one cache line, so that the memory keeps its alignment.
struct alignas(WorkspacePool::kAlignment) Block {
    Block *next;
    size_t bytes;
};

Block *WorkspacePool::make(size_t bytes) {
    void *memory = memory_.allocate(sizeof(Block) + bytes, kAlignment);
    return new (memory) Block{nullptr, bytes};
}

void WorkspacePool::free(Block *block) noexcept {
    memory_.deallocate(block, sizeof(Block) + block->bytes, kAlignment);
}

void WorkspacePool::put_back(Block *block) noexcept {
    std::lock_guard lock(mutex_);
    Block **link = &idle_;
    while (*link && (*link)->bytes > block->bytes) link = &(*link)->next;
    block->next = *link;
    *link = block;
}

WorkspacePool::~WorkspacePool() {
    while (Block *block = idle_) {
        idle_ = block->next;
        free(block);
    }
}

void WorkspacePool::reserve(size_t bytes) {
    {
        std::lock_guard lock(mutex_);
        if (idle_ && idle_->bytes >= bytes) return;
    }
    put_back(make(bytes));
}

Block *WorkspacePool::take_largest() noexcept {
    std::lock_guard lock(mutex_);
    Block *block = idle_;
    if (block) idle_ = block->next;
    return block;
}

WorkspacePool::Lease::Lease(WorkspacePool &pool, size_t bytes)
    : pool_(pool), block_(pool.take_largest()) {
    if (block_ && block_->bytes >= bytes) return;
    if (block_) pool.free(block_); // outgrown by today's plans
    block_ = pool.make(bytes);
}

WorkspacePool::Lease::~Lease() { pool_.put_back(block_); }

std::byte *WorkspacePool::Lease::data() const noexcept {
    return reinterpret_cast<std::byte *>(block_ + 1);
}

} // namespace vfa
