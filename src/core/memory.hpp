// memory.hpp - all memory of a context and its plans, through the caller's allocator if there is
// one.
#pragma once
#include <atomic>
#include <cstddef>
#include <memory_resource>
#include <new>
#include <utility>

#include <vfa/vfa.h>

namespace vfa {

// A memory resource over vfa_hooks.alloc / free, or over operator new. Throws std::bad_alloc.
class Memory final : public std::pmr::memory_resource {
public:
    explicit Memory(const vfa_hooks &hooks) noexcept : hooks_(hooks) {}

private:
    void *do_allocate(size_t bytes, size_t alignment) override;
    void do_deallocate(void *block, size_t bytes, size_t alignment) override;
    bool do_is_equal(const memory_resource &other) const noexcept override {
        return this == &other;
    }

    vfa_hooks hooks_;
};

// An object with a reference count that lives in a Memory. Handles of the C API are such objects,
// so that they hold each other and may be destroyed in any order.
class Counted {
public:
    void retain() noexcept { references_.fetch_add(1, std::memory_order_relaxed); }
    // True for the last one: the caller then destroys the object.
    bool release() noexcept { return references_.fetch_sub(1, std::memory_order_acq_rel) == 1; }

private:
    std::atomic<size_t> references_{1};
};

// Owns one reference to a T, which has `static void destroy(T *) noexcept`.
template <class T> class Ref {
public:
    Ref() noexcept = default;
    static Ref adopt(T *object) noexcept { return Ref(object); }
    static Ref share(T *object) noexcept {
        object->retain();
        return Ref(object);
    }
    Ref(Ref &&other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
    Ref &operator=(Ref &&other) noexcept {
        std::swap(object_, other.object_);
        return *this;
    }
    ~Ref() {
        if (object_ && object_->release()) T::destroy(object_);
    }

    T *get() const noexcept { return object_; }
    T *operator->() const noexcept { return object_; }
    T &operator*() const noexcept { return *object_; }
    T *detach() noexcept { return std::exchange(object_, nullptr); }

private:
    explicit Ref(T *object) noexcept : object_(object) {}
    T *object_ = nullptr;
};

} // namespace vfa
