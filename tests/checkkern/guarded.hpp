// guarded.hpp - memory between two pages that nobody may touch, and calls that survive touching them.
#pragma once
#include <cstddef>
#include <functional>
#include <string>

namespace checkkern {

// `bytes` of memory flush against an inaccessible page: at its end, or at its start. Whatever lies
// between the memory and the other page is a pattern that must stay.
class Guarded {
public:
    Guarded(const char *name, size_t bytes, bool at_end, size_t alignment);
    ~Guarded();
    Guarded(const Guarded &) = delete;
    Guarded &operator=(const Guarded &) = delete;

    const char *name() const { return name_; }
    char *data() const { return data_; }
    size_t size() const { return bytes_; }
    bool slack_is_whole() const;
    // Is the address on one of the two pages, and how far from the memory (negative: before it)?
    bool guards(const void *address, ptrdiff_t &distance) const;

private:
    const char *name_;
    size_t bytes_, mapped_;
    char *pages_, *data_; // mapped_ bytes from pages_, the first and the last page inaccessible
};

// Calls function(). "" if it comes back and leaves the control bits of the floating-point environment as
// they were, else what it did instead: "SIGSEGV 2 bytes behind k".
std::string call(const std::function<void()> &function,
                 const std::function<std::string(const void *address)> &describe_address);

} // namespace checkkern
