#include "peaks.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

#include "peak_loops.hpp"

namespace bench {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

// Units of work a second of all threads together: each calls work(index) until the time is over, and
// the best tenth of the time counts, as elsewhere the minimum does.
template <class Work> double best_rate(uint32_t threads, double seconds, Work work) {
    constexpr int kParts = 10;
    double best = 0;
    for (int part = 0; part < kParts; part++) {
        std::atomic<bool> stop{false};
        std::vector<double> rates(threads);
        const auto run = [&](uint32_t index) {
            double done = 0;
            const auto start = Clock::now();
            do done += work(index);
            while (!stop.load(std::memory_order_relaxed) &&
                   (index || seconds_since(start) < seconds / kParts));
            if (index == 0) stop = true;
            rates[index] = done / seconds_since(start);
        };
        std::vector<std::thread> others;
        for (uint32_t i = 1; i < threads; i++) others.emplace_back(run, i);
        run(0);
        for (std::thread &thread : others) thread.join();
        best = std::max(best, std::accumulate(rates.begin(), rates.end(), 0.0));
    }
    return best;
}

} // namespace

PeakKind peak_kind(const std::string &isa, bool bf16) {
    if (isa == "avx512bf16" && !bf16) return {"avx512"};
    if (isa == "avx2" || isa == "avx512" || isa == "avx512bf16") return {isa};
    return {"portable"};
}

double measure_peak(const PeakKind &kind, uint32_t threads, double seconds) {
    double (*loop)(int64_t) = peak_loop_portable;
#if defined(__x86_64__)
    if (kind.isa == "avx2") loop = peak_loop_avx2;
    if (kind.isa == "avx512") loop = peak_loop_avx512;
    if (kind.isa == "avx512bf16") loop = peak_loop_avx512bf16;
#endif
    constexpr int64_t kRounds = 20000; // about 0.1 ms
    return best_rate(threads, seconds, [=](uint32_t) { return loop(kRounds) * kRounds; }) / 1e9;
}

double measure_read_bandwidth(uint32_t threads, double seconds) {
    // Above any cache, and summed with vectors by the compiler in independent lanes.
    std::vector<std::vector<uint64_t>> arrays(threads, std::vector<uint64_t>((256 << 20) / 8, 1));
    std::atomic<uint64_t> sink{0};
    return best_rate(threads, seconds,
                     [&](uint32_t index) {
                         const std::vector<uint64_t> &array = arrays[index];
                         uint64_t lanes[32] = {};
                         for (size_t i = 0; i < array.size(); i += 32)
                             for (size_t lane = 0; lane < 32; lane++)
                                 lanes[lane] += array[i + lane];
                         sink += std::accumulate(std::begin(lanes), std::end(lanes), uint64_t{0});
                         return (double)array.size() * sizeof(uint64_t);
                     }) /
           1e9;
}

} // namespace bench
