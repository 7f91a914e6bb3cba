#include "guarded.hpp"

#include <algorithm>
#include <cfenv>
#include <csetjmp>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace checkkern {

namespace {

constexpr char kSlack = 0x5a;

size_t page_size() { return (size_t)sysconf(_SC_PAGESIZE); }

} // namespace

Guarded::Guarded(const char *name, size_t bytes, bool at_end, size_t alignment)
    : name_(name), bytes_(bytes) {
    const size_t page = page_size(), inner = (bytes + page - 1) / page * page;
    mapped_ = inner + 2 * page;
    void *pages =
        mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) {
        std::perror("checkkern: mmap");
        std::exit(2);
    }
    pages_ = static_cast<char *>(pages);
    std::fill(pages_ + page, pages_ + page + inner, kSlack);
    mprotect(pages_, page, PROT_NONE);
    mprotect(pages_ + page + inner, page, PROT_NONE);
    data_ = at_end ? pages_ + page + (inner - bytes) / alignment * alignment : pages_ + page;
}

Guarded::~Guarded() { munmap(pages_, mapped_); }

bool Guarded::slack_is_whole() const {
    const size_t page = page_size();
    const auto whole = [](const char *begin, const char *end) {
        return std::all_of(begin, end, [](char c) { return c == kSlack; });
    };
    return whole(pages_ + page, data_) && whole(data_ + bytes_, pages_ + mapped_ - page);
}

bool Guarded::guards(const void *address, ptrdiff_t &distance) const {
    const char *at = static_cast<const char *>(address);
    if (at < pages_ || at >= pages_ + mapped_) return false;
    distance = at < data_ ? at - data_ : at - (data_ + bytes_);
    return true;
}

// ------------------------------------------------------------------------------------------ call

namespace {

sigjmp_buf back;
volatile sig_atomic_t caught;
const void *volatile caught_at;

void on_signal(int number, siginfo_t *info, void *) {
    caught = number;
    caught_at = info->si_addr;
    siglongjmp(back, 1);
}

const int kSignals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};

class Handlers {
public:
    Handlers() {
        struct sigaction action {};
        action.sa_sigaction = on_signal;
        action.sa_flags = SA_SIGINFO | SA_NODEFER;
        for (size_t n = 0; n < std::size(kSignals); n++)
            sigaction(kSignals[n], &action, &before_[n]);
    }
    ~Handlers() {
        for (size_t n = 0; n < std::size(kSignals); n++)
            sigaction(kSignals[n], &before_[n], nullptr);
    }

private:
    struct sigaction before_[std::size(kSignals)];
};

// Rounding, flushing and traps; not the sticky flags, which any arithmetic may raise.
unsigned float_control() {
#if defined(__x86_64__)
    return _mm_getcsr() & ~0x3fu;
#else
    return (unsigned)std::fegetround();
#endif
}

const char *signal_name(int number) {
    return number == SIGSEGV  ? "SIGSEGV"
           : number == SIGBUS ? "SIGBUS"
           : number == SIGILL ? "SIGILL"
                              : "SIGFPE";
}

} // namespace

std::string call(const std::function<void()> &function,
                 const std::function<std::string(const void *)> &describe_address) {
    const unsigned control = float_control();
    {
        const Handlers handlers;
        caught = 0;
        if (sigsetjmp(back, 1) == 0) function();
    }
    if (caught != 0) return std::string(signal_name(caught)) + " " + describe_address(caught_at);
    if (float_control() != control) return "changed the floating-point environment";
    return "";
}

} // namespace checkkern
