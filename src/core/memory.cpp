#include "core/memory.hpp"

namespace vfa {

void *Memory::do_allocate(size_t bytes, size_t alignment) {
    if (!hooks_.alloc) return ::operator new(bytes, std::align_val_t(alignment));
    void *block = hooks_.alloc(hooks_.user, bytes, alignment);
    if (!block) throw std::bad_alloc();
    return block;
}

void Memory::do_deallocate(void *block, size_t bytes, size_t alignment) {
    if (hooks_.alloc)
        hooks_.free(hooks_.user, block, bytes);
    else
        ::operator delete(block, std::align_val_t(alignment));
}

} // namespace vfa
