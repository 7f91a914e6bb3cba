// checkkern: each kernel by itself, against the definition, in memory with guard pages on both sides.
#include <cstdio>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench.hpp"
#include "kernels/cpu/dispatch.hpp"
#include "work.hpp"

using namespace checkkern;
using vfa::cpu::isa;
using vfa::cpu::isa_count;
using vfa::cpu::Kernels;

namespace {

const char *const kUsage =
    "checkkern [OPTION]...   runs kernels over random shapes and compares them with the "
    "definition\n"
    "  --isa NAME      only this kernel: math, memory_efficient or an instruction set\n"
    "  --filter TEXT   only checks (bench: shapes) whose name contains TEXT\n"
    "  --seed N        the first shape (default 1)\n"
    "  --repeat N      shapes for each check (default 150); bench: rounds (default 11)\n"
    "  --bench         measures instead\n"
    "  --json FILE     bench: the numbers, as an array of objects\n"
    "  --list          prints names, runs nothing\n";

struct Options {
    std::string isa, filter, json;
    uint64_t seed = 1;
    int repeat = 0;
    bool bench = false, list = false;
};

Options parse_options(int argc, char **argv) {
    Options options;
    for (int n = 1; n < argc; n++) {
        const std::string name = argv[n];
        const auto value = [&]() -> std::string {
            if (n + 1 >= argc) throw std::invalid_argument(name + " needs a value");
            return argv[++n];
        };
        if (name == "--isa")
            options.isa = value();
        else if (name == "--filter")
            options.filter = value();
        else if (name == "--seed")
            options.seed = std::stoull(value());
        else if (name == "--repeat")
            options.repeat = std::stoi(value());
        else if (name == "--json")
            options.json = value();
        else if (name == "--bench")
            options.bench = true;
        else if (name == "--list")
            options.list = true;
        else
            throw std::invalid_argument("unknown option " + name + "\n" + kUsage);
    }
    return options;
}

int passed, failed, skipped;

// The definition and memory_efficient run everywhere; an instruction set where the processor has it.
std::vector<const Kernels *> choose_kernels(const Options &options) {
    std::vector<const Kernels *> all = {&vfa::cpu::math_kernels,
                                        &vfa::cpu::memory_efficient_kernels};
    for (uint32_t index = 0; index < isa_count(); index++) {
        if (isa(index).available()) {
            all.push_back(isa(index).kernels);
        } else {
            std::printf("skipped: %s: needs %s\n", isa(index).kernels->name, isa(index).needs);
            skipped++;
        }
    }
    std::vector<const Kernels *> chosen;
    for (const Kernels *kernels : all)
        if (options.isa.empty() || options.isa == kernels->name) chosen.push_back(kernels);
    if (chosen.empty()) throw std::invalid_argument("there is no kernel " + options.isa + " here");
    return chosen;
}

const char *const kDtypes[] = {"bf16", "f16", "f32"};

std::string check_name(const Kernels &kernels, int dtype) {
    return std::string("attend/") + kernels.name + "/" + kDtypes[dtype];
}

void check(const Kernels &kernels, int dtype, const Options &options) {
    const int repeat = options.repeat ? options.repeat : 150;
    for (int n = 0; n < repeat; n++) {
        const uint64_t seed = options.seed + (uint64_t)n;
        const Shape shape = random_shape(seed, (vfa_dtype)dtype, kernels);
        std::optional<Definition> definition;
        for (const bool at_end : {true, false}) {
            Work work(shape, seed, kernels, at_end);
            if (!definition) definition = work.definition();
            std::string wrong = work.run(kernels);
            if (wrong.empty()) wrong = work.compare(*definition);
            if (wrong.empty()) {
                passed++;
                continue;
            }
            failed++;
            std::printf("FAILED: %s: %s\n  %s, guarded at its %s\n"
                        "  checkkern --filter %s --seed %llu --repeat 1\n",
                        check_name(kernels, dtype).c_str(), wrong.c_str(), shape.text().c_str(),
                        at_end ? "end" : "start", check_name(kernels, dtype).c_str(),
                        (unsigned long long)seed);
            std::fflush(stdout);
        }
    }
}

int run(const Options &options) {
    std::vector<const Kernels *> kernels = choose_kernels(options);
    if (options.list) {
        for (const Kernels *one : kernels)
            for (int dtype = 0; dtype < 3; dtype++)
                std::printf("%s\n", check_name(*one, dtype).c_str());
        for (const std::string &name : bench_names()) std::printf("--bench %s\n", name.c_str());
        return 0;
    }
    if (options.bench) {
        // The definition is not made to be fast.
        if (options.isa.empty()) kernels.erase(kernels.begin());
        std::FILE *json = options.json.empty() ? nullptr : std::fopen(options.json.c_str(), "w");
        if (!options.json.empty() && !json)
            throw std::invalid_argument("cannot write " + options.json);
        bench(kernels, options.filter, options.repeat ? options.repeat : 11, json);
        if (json) std::fclose(json);
        return 0;
    }
    for (const Kernels *one : kernels)
        for (int dtype = 0; dtype < 3; dtype++)
            if (check_name(*one, dtype).find(options.filter) != std::string::npos)
                check(*one, dtype, options);
    if (passed + failed == 0) throw std::invalid_argument("no check has this name");
    std::printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed ? 1 : 0;
}

} // namespace

int main(int argc, char **argv) {
    try {
        return run(parse_options(argc, argv));
    } catch (const std::exception &error) {
        std::fprintf(stderr, "checkkern: %s\n", error.what());
        return 2;
    }
}
