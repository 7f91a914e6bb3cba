// vfa-bench: how fast this machine's attention is, as a share of what its arithmetic allows.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "library.hpp"
#include "peaks.hpp"
#include "statistics.hpp"
#include "workload.hpp"

namespace {

using namespace bench;
using nlohmann::json;

struct Options {
    std::vector<std::string> workloads;
    std::vector<std::string> dtypes = {"bf16", "f16", "f32"};
    std::vector<uint32_t> threads = {1, 0};
    std::string backend = "Cpu";
    std::string isa;
    double seconds = 2;
    std::string json_path, other_path;
    bool bandwidth = false;
};

vfa_dtype dtype_of(const std::string &name) {
    return name == "bf16" ? VFA_DTYPE_BF16 : name == "f16" ? VFA_DTYPE_F16 : VFA_DTYPE_F32;
}

// "cpu/avx2" -> "avx2"
std::string isa_of(const std::string &kernel) { return kernel.substr(kernel.find('/') + 1); }

double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

// At least this many samples, however long they take: the minimum of fewer says little.
constexpr size_t kMinSamples = 5;
// The peak is measured for so long before and again after each workload, and the better counts: the
// machine's clock may change in between.
constexpr double kPeakSeconds = 0.15;

// A workload in a dtype, with its numbers.
struct Row {
    Row(const Workload &workload, const std::string &dtype_name)
        : name(workload.name), dtype(dtype_name), problem(with_dtype(workload.problem, dtype_name)),
          tensors(problem) {}

    static conform::Case with_dtype(conform::Case problem, const std::string &dtype) {
        problem.dtype = dtype_of(dtype);
        return problem;
    }

    const std::string name, dtype;
    const conform::Case problem;
    const Tensors tensors;
};

vfa_backend backend_of(const Options &options) {
    vfa_backend backend;
    if (vfa_backend_from_name(options.backend.c_str(), &backend) != VFA_OK)
        throw std::runtime_error(vfa_last_error());
    return backend;
}

json measure(const Options &options, const Row &row, uint32_t threads) {
    const Library library = linked_library();
    const vfa_backend backend = backend_of(options);
    Runner runner(library, row.problem, row.tensors, backend, options.isa, threads);

    const std::string isa = isa_of(runner.info().kernel);
    const PeakKind kind = peak_kind(isa, row.problem.dtype == VFA_DTYPE_BF16);
    double peak = measure_peak(kind, runner.threads(), kPeakSeconds);
    runner.run(); // pages, caches, clocks
    std::vector<double> samples;
    const double end = now() + options.seconds;
    while (samples.size() < kMinSamples || now() < end) samples.push_back(runner.run());
    peak = std::max(peak, measure_peak(kind, runner.threads(), kPeakSeconds));

    const Summary summary = summarize(samples);
    const double gflops = flops_of(row.problem) / summary.min / 1e9;
    return {{"workload", row.name},
            {"dtype", row.dtype},
            {"threads", runner.threads()},
            {"backend", vfa_backend_name(runner.info().backend)},
            {"isa", isa},
            {"gflops", gflops},
            {"peak_gflops", peak},
            {"peak_isa", kind.isa},
            {"percent_of_peak", 100 * gflops / peak},
            {"min_s", summary.min},
            {"median_s", summary.median},
            {"spread", summary.spread},
            {"samples", samples.size()}};
}

json compare(const Options &options, const Row &row, uint32_t threads, const Library &other) {
    const Library library = linked_library();
    const vfa_backend backend = backend_of(options);
    Runner mine(library, row.problem, row.tensors, backend, options.isa, threads);
    Runner theirs(other, row.problem, row.tensors, backend, options.isa, threads);
    mine.run();
    theirs.run();

    // Call by call, in changing order, so that whatever else the machine does meets both.
    std::vector<double> ratios, mine_s, theirs_s;
    const double end = now() + options.seconds;
    while (ratios.size() < 2 * kMinSamples || now() < end) {
        const bool first = ratios.size() % 2 == 0;
        const double before = first ? mine.run() : theirs.run();
        const double after = first ? theirs.run() : mine.run();
        mine_s.push_back(first ? before : after);
        theirs_s.push_back(first ? after : before);
        ratios.push_back(theirs_s.back() / mine_s.back());
    }
    const Interval interval = median_interval(ratios);
    return {{"workload", row.name},
            {"dtype", row.dtype},
            {"threads", mine.threads()},
            {"backend", vfa_backend_name(mine.info().backend)},
            {"isa", isa_of(mine.info().kernel)},
            {"min_s", summarize(mine_s).min},
            {"median_s", summarize(mine_s).median},
            {"other_min_s", summarize(theirs_s).min},
            {"other_median_s", summarize(theirs_s).median},
            {"speedup", interval.median},
            {"speedup_low", interval.low},
            {"speedup_high", interval.high},
            {"samples", ratios.size()}};
}

void print_measured(const json &row) {
    std::printf("%-9.9s %-5s %3u  %-16s %-11s %8.1f GFLOP/s %5.1f%% of %7.1f   min %9.3f ms  "
                "median %9.3f ms  spread %4.1f%%\n",
                row["workload"].get<std::string>().c_str(), row["dtype"].get<std::string>().c_str(),
                row["threads"].get<unsigned>(), row["backend"].get<std::string>().c_str(),
                row["isa"].get<std::string>().c_str(), row["gflops"].get<double>(),
                row["percent_of_peak"].get<double>(), row["peak_gflops"].get<double>(),
                1e3 * row["min_s"].get<double>(), 1e3 * row["median_s"].get<double>(),
                100 * row["spread"].get<double>());
}

void print_compared(const json &row) {
    std::printf("%-9.9s %-5s %3u  %-11s this %9.3f ms  other %9.3f ms  speedup %.3f "
                "(%.3f to %.3f)\n",
                row["workload"].get<std::string>().c_str(), row["dtype"].get<std::string>().c_str(),
                row["threads"].get<unsigned>(), row["isa"].get<std::string>().c_str(),
                1e3 * row["min_s"].get<double>(), 1e3 * row["other_min_s"].get<double>(),
                row["speedup"].get<double>(), row["speedup_low"].get<double>(),
                row["speedup_high"].get<double>());
}

void list_workloads() {
    for (const Workload &workload : named_workloads())
        std::printf("%-9s %s\n", workload.name.c_str(), workload.about.c_str());
}

int run(const Options &options) {
    std::vector<Workload> workloads;
    if (options.workloads.empty()) workloads = named_workloads();
    for (const std::string &text : options.workloads) workloads.push_back(find_workload(text));

    json rows = json::array(), machine = {{"vfa", vfa_version_string()}};
    vfa_backend_info info;
    vfa_backend_info_init(&info, sizeof info);
    if (vfa_backend_query(VFA_BACKEND_CPU, 0, &info) == VFA_OK) {
        machine["processor"] = info.device;
        machine["threads"] = info.threads;
        machine["isa"] = info.isa;
    }
    std::printf("vfa %s on %s, %u threads\n", vfa_version_string(), info.device, info.threads);
    if (options.bandwidth)
        for (const uint32_t threads : {1u, info.threads}) {
            const double gbps = measure_read_bandwidth(threads, 1);
            std::printf("read bandwidth, %u threads: %.1f GB/s\n", threads, gbps);
            machine["read_gbps"][std::to_string(threads)] = gbps;
        }

    const Library other =
        options.other_path.empty() ? linked_library() : load_library(options.other_path);
    for (const Workload &workload : workloads)
        for (const std::string &dtype : options.dtypes) {
            const Row row(workload, dtype);
            for (const uint32_t threads : options.threads) {
                if (threads == 0 && info.threads == 1) continue; // all threads are one
                if (options.other_path.empty()) {
                    rows.push_back(measure(options, row, threads));
                    print_measured(rows.back());
                } else {
                    rows.push_back(compare(options, row, threads, other));
                    print_compared(rows.back());
                }
                std::fflush(stdout);
            }
        }

    if (!options.json_path.empty()) {
        std::ofstream file(options.json_path);
        file << json{{"machine", machine}, {"rows", rows}}.dump(2) << '\n';
        if (!file) throw std::runtime_error("could not write " + options.json_path);
    }
    return 0;
}

} // namespace

int main(int argc, char **argv) {
    Options options;
    CLI::App app{
        "Measures libvfa on this machine: GFLOP/s, and percent of the peak of its multiply-add "
        "units measured in the same run."};
    bool list = false;
    app.add_option("workloads", options.workloads,
                   "names (see --list) or cases (\"seqs=128,30 hq=4 d=64\"); default: all names");
    app.add_option("--dtype", options.dtypes, "bf16, f16, f32")
        ->delimiter(',')
        ->check(CLI::IsMember({"bf16", "f16", "f32"}));
    app.add_option("--threads", options.threads, "0: all")->delimiter(',');
    app.add_option("--backend", options.backend, "Cpu, MemoryEfficient, Math, ...");
    app.add_option("--isa", options.isa, "at most this instruction set: see vfa-info");
    app.add_option("--seconds", options.seconds, "for each row")->check(CLI::NonNegativeNumber);
    app.add_option("--json", options.json_path, "file for the rows");
    app.add_option("--compare", options.other_path,
                   "another libvfa.so: both are called in turns, the ratio has a 95 % interval");
    app.add_flag("--bandwidth", options.bandwidth, "measure the memory's read bandwidth, too");
    app.add_flag("--list", list, "the workloads");
    CLI11_PARSE(app, argc, argv);
    try {
        if (list) {
            list_workloads();
            return 0;
        }
        return run(options);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "vfa-bench: %s\n", error.what());
        return 1;
    }
}
