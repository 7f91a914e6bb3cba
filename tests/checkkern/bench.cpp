#include "bench.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "core/dtype.hpp"
#include "random.hpp"

namespace checkkern {

namespace {

using vfa::cpu::AttendArgs;
using vfa::cpu::Kernels;

struct Job {
    const char *name;
    vfa_dtype dtype;
    int32_t head_dim, group;
    int64_t num_queries, num_keys;
    vfa_causal causal;
};

// One kv head of: prefill, long and causal prefill, wide heads, a short sequence, decode with a group.
const Job kJobs[] = {
    {"prefill/bf16/d64", VFA_DTYPE_BF16, 64, 1, 512, 512, VFA_CAUSAL_NONE},
    {"prefill/bf16/d128", VFA_DTYPE_BF16, 128, 1, 512, 512, VFA_CAUSAL_NONE},
    {"prefill/bf16/d256", VFA_DTYPE_BF16, 256, 1, 512, 512, VFA_CAUSAL_NONE},
    {"prefill/f16/d128", VFA_DTYPE_F16, 128, 1, 512, 512, VFA_CAUSAL_NONE},
    {"prefill/f32/d128", VFA_DTYPE_F32, 128, 1, 512, 512, VFA_CAUSAL_NONE},
    {"causal/bf16/d128", VFA_DTYPE_BF16, 128, 1, 1024, 1024, VFA_CAUSAL_BOTTOM_RIGHT},
    {"short/bf16/d64", VFA_DTYPE_BF16, 64, 1, 24, 24, VFA_CAUSAL_NONE},
    {"decode/bf16/d128/group8", VFA_DTYPE_BF16, 128, 8, 1, 1024, VFA_CAUSAL_BOTTOM_RIGHT},
};

double now() {
    const auto time = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration<double>(time).count();
}

// All rows of the job, in calls as the backend makes them.
class Runner {
public:
    Runner(const Job &job, const Kernels &kernels) : job_(job), kernels_(kernels) {
        const vfa::cpu::Shape shape = {job.dtype, job.head_dim, job.head_dim, job.num_keys};
        rows_per_call_ = kernels.rows_per_call(shape);
        const size_t d = (size_t)job.head_dim;
        const size_t q = (size_t)(job.num_queries * job.group) * d, k = (size_t)job.num_keys * d;
        Random random(1);
        for (auto [values, count] : {std::pair{&q_, q}, {&k_, k}, {&v_, k}}) {
            values->resize(count * 4);
            for (size_t n = 0; n < count; n++) {
                const float value = (float)random.normal();
                if (job.dtype == VFA_DTYPE_F32)
                    std::memcpy(values->data() + 4 * n, &value, 4);
                else {
                    const uint16_t half = job.dtype == VFA_DTYPE_BF16 ? vfa::float_to_bf16(value)
                                                                      : vfa::float_to_f16(value);
                    std::memcpy(values->data() + 2 * n, &half, 2);
                }
            }
        }
        o_.resize(q * 4);
        lse_.resize((size_t)(job.num_queries * job.group));
        scratch_.resize(kernels.scratch_bytes(shape) + 64);

        args_.q = q_.data();
        args_.q_token_stride = args_.o_token_stride = job.group * job.head_dim;
        args_.q_head_stride = args_.o_head_stride = job.head_dim;
        args_.k = k_.data();
        args_.v = v_.data();
        args_.k_token_stride = args_.v_token_stride = job.head_dim;
        args_.o = o_.data();
        args_.lse = lse_.data();
        args_.lse_token_stride = job.group;
        args_.lse_head_stride = 1;
        args_.group = job.group;
        args_.head_dim = args_.head_dim_v = job.head_dim;
        args_.visible = vfa::make_visible(job.causal, -1, -1, job.num_queries, job.num_keys);
        args_.scale = (float)(1 / std::sqrt((double)job.head_dim));
        args_.alibi_offset = job.num_keys - job.num_queries;
        args_.scratch =
            reinterpret_cast<void *>((reinterpret_cast<uintptr_t>(scratch_.data()) + 63) / 64 * 64);
    }

    void run() {
        const int64_t rows = job_.num_queries * job_.group;
        for (int64_t row = 0; row < rows; row += rows_per_call_) {
            args_.row_begin = row;
            args_.row_end = std::min(row + rows_per_call_, rows);
            kernels_.attend[job_.dtype](args_);
        }
    }

    double flops() const {
        return 2.0 * 2 * job_.head_dim * job_.group *
               (double)vfa::visible_pairs(args_.visible, 0, job_.num_queries);
    }

private:
    const Job &job_;
    const Kernels &kernels_;
    int64_t rows_per_call_;
    std::vector<char> q_, k_, v_, o_, scratch_;
    std::vector<float> lse_;
    AttendArgs args_{};
};

struct Timing {
    double min, median, spread; // seconds for one run; spread: of the middle half, relative
};

Timing measure(Runner &runner, int rounds) {
    // Calibrate: as many runs a round as take 20 ms. These runs warm up, too.
    int64_t runs = 1;
    for (;;) {
        const double start = now();
        for (int64_t n = 0; n < runs; n++) runner.run();
        if (now() - start >= 0.02) break;
        runs *= 2;
    }
    std::vector<double> times;
    for (int round = 0; round < rounds; round++) {
        const double start = now();
        for (int64_t n = 0; n < runs; n++) runner.run();
        times.push_back((now() - start) / (double)runs);
    }
    std::sort(times.begin(), times.end());
    const double median = times[times.size() / 2];
    return {times[0], median, (times[times.size() * 3 / 4] - times[times.size() / 4]) / median};
}

} // namespace

std::vector<std::string> bench_names() {
    std::vector<std::string> names;
    for (const Job &job : kJobs) names.push_back(job.name);
    return names;
}

void bench(const std::vector<const Kernels *> &kernels, const std::string &filter, int rounds,
           std::FILE *json) {
    std::printf("%-26s %-18s %10s %10s %7s %9s %8s %8s\n", "", "", "min us", "median us", "spread",
                "GFLOP/s", "mem.eff.", "portable");
    const char *separator = "[";
    for (const Job &job : kJobs) {
        if (std::string(job.name).find(filter) == std::string::npos) continue;
        double memory_efficient = 0, portable = 0;
        for (const Kernels *kernel : kernels) {
            Runner runner(job, *kernel);
            const Timing time = measure(runner, rounds);
            const double gflops = runner.flops() / time.median * 1e-9;
            if (kernel == &vfa::cpu::memory_efficient_kernels) memory_efficient = time.median;
            if (kernel == &vfa::cpu::portable_kernels) portable = time.median;
            const auto ratio = [&](double other) -> std::string {
                if (other == 0) return "-";
                char text[16];
                std::snprintf(text, sizeof text, "%.2fx", other / time.median);
                return text;
            };
            std::printf("%-26s %-18s %10.2f %10.2f %6.1f%% %9.2f %8s %8s\n", job.name, kernel->name,
                        time.min * 1e6, time.median * 1e6, time.spread * 100, gflops,
                        ratio(memory_efficient).c_str(), ratio(portable).c_str());
            std::fflush(stdout);
            if (!json) continue;
            std::fprintf(json,
                         "%s\n  {\"shape\": \"%s\", \"kernel\": \"%s\", \"min_s\": %.9g, "
                         "\"median_s\": %.9g, \"spread\": %.4g, \"gflops\": %.5g}",
                         separator, job.name, kernel->name, time.min, time.median, time.spread,
                         gflops);
            separator = ",";
        }
    }
    if (json) std::fprintf(json, "%s]\n", separator[0] == '[' ? "[" : "\n");
}

} // namespace checkkern
