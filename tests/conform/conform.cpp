// conform: whole-library cases on every backend, against attention in double precision.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "case.hpp"
#include "library.hpp"
#include "oracle.hpp"

using namespace conform;

namespace {

const char *const kUsage =
    "conform [OPTION]...   runs attention cases on every usable backend and checks the results\n"
    "  --file FILE      cases, one a line (more than once: all of them)\n"
    "  --case CASE      one case, as a line of a file; case.hpp says what a line can hold\n"
    "  --random N       N random cases\n"
    "  --backend NAME   only this backend\n"
    "  --isa NAME       only this instruction set of the backend Cpu\n"
    "  --quick          one case of each line, a different one for each\n"
    "  --seed N         other numbers for the same cases (default 1)\n"
    "  --list           prints backends and cases, runs nothing\n";

struct Options {
    std::vector<std::string> files, lines;
    std::string backend, isa;
    bool quick = false, list = false;
    uint64_t seed = 1, random = 0;
};

Options parse_options(int argc, char **argv) {
    Options options;
    for (int n = 1; n < argc; n++) {
        const std::string name = argv[n];
        const auto value = [&]() -> std::string {
            if (n + 1 >= argc) throw std::invalid_argument(name + " needs a value");
            return argv[++n];
        };
        if (name == "--file")
            options.files.push_back(value());
        else if (name == "--case")
            options.lines.push_back(value());
        else if (name == "--random")
            options.random = std::stoull(value());
        else if (name == "--backend")
            options.backend = value();
        else if (name == "--isa")
            options.isa = value();
        else if (name == "--quick")
            options.quick = true;
        else if (name == "--seed")
            options.seed = std::stoull(value());
        else if (name == "--list")
            options.list = true;
        else
            throw std::invalid_argument("unknown option " + name + "\n" + kUsage);
    }
    if (options.files.empty() && options.lines.empty() && options.random == 0)
        throw std::invalid_argument(std::string("no cases: give --file, --case or --random\n") +
                                    kUsage);
    return options;
}

std::vector<Case> read_cases(const Options &options) {
    std::vector<std::string> lines = options.lines;
    for (const std::string &name : options.files) {
        std::ifstream file(name);
        if (!file) throw std::invalid_argument("cannot read " + name);
        for (std::string line; std::getline(file, line);) lines.push_back(line);
    }
    // Each has its own seed: a longer run begins with the shorter one.
    for (uint64_t n = 0; n < options.random; n++)
        lines.push_back(random_line(options.seed * 1000003 + n));
    std::vector<Case> cases;
    size_t turn = 0;
    for (const std::string &line : lines) {
        std::vector<Case> more;
        try {
            more = parse_cases(line);
        } catch (const std::invalid_argument &error) {
            throw std::invalid_argument(std::string(error.what()) + " in: " + line);
        }
        if (options.quick && !more.empty()) more = {more[turn++ % more.size()]};
        cases.insert(cases.end(), more.begin(), more.end());
    }
    if (cases.empty()) throw std::invalid_argument("the files hold no case");
    return cases;
}

std::vector<Engine> choose_engines(const Options &options) {
    vfa_backend wanted = VFA_BACKEND_AUTO;
    if (!options.backend.empty() &&
        vfa_backend_from_name(options.backend.c_str(), &wanted) != VFA_OK)
        throw std::invalid_argument(vfa_last_error());
    std::vector<Engine> chosen;
    for (const Engine &engine : engines())
        if ((options.backend.empty() || engine.backend == wanted) &&
            (options.isa.empty() || engine.isa == options.isa))
            chosen.push_back(engine);
    return chosen;
}

int passed, failed, skipped;

void run_case(const Case &c, const std::vector<Engine> &chosen, const Options &options,
              std::map<std::string, int> &unsupported) {
    const Problem problem = make_problem(c, options.seed);
    const Truth truth = truth_of(problem);
    for (const Engine &engine : chosen) {
        std::string wrong;
        try {
            const Result result = run(engine, problem);
            wrong = judge(problem, truth, result);
            if (wrong.empty() && !engine.isa.empty() && result.kernel != "cpu/" + engine.isa)
                wrong = "asked for " + engine.isa + ", but " + result.kernel + " has computed";
        } catch (const Failure &failure) {
            if (failure.status == VFA_ERROR_UNSUPPORTED) {
                unsupported[std::string(vfa_backend_name(engine.backend)) + ": " +
                            failure.what()]++;
                skipped++;
                continue;
            }
            wrong = std::string(vfa_status_name(failure.status)) + ": " + failure.what();
        }
        if (wrong.empty()) {
            passed++;
            continue;
        }
        failed++;
        const std::string seed = options.seed == 1 ? "" : " --seed " + std::to_string(options.seed);
        std::printf("FAILED: %s\n  conform --case '%s' %s%s\n", wrong.c_str(), c.text.c_str(),
                    engine.options().c_str(), seed.c_str());
        std::fflush(stdout);
    }
}

int run_all(const Options &options) {
    const std::vector<Case> cases = read_cases(options);
    const std::vector<Engine> chosen = choose_engines(options);
    if (options.list) {
        for (const Engine &engine : chosen) std::printf("%s\n", engine.options().c_str());
        for (const Case &c : cases) std::printf("--case '%s'\n", c.text.c_str());
        return 0;
    }
    // What cannot run counts once, not once for each case.
    for (const Unusable &unusable : unusable_engines()) {
        if (!options.backend.empty() || !options.isa.empty()) break;
        std::printf("skipped: %s: %s\n", unusable.name.c_str(), unusable.reason.c_str());
        skipped++;
    }
    if (chosen.empty()) {
        for (const Unusable &unusable : unusable_engines())
            std::printf("%s: %s\n", unusable.name.c_str(), unusable.reason.c_str());
        throw std::invalid_argument("no such backend can be used here");
    }
    std::map<std::string, int> unsupported;
    for (const Case &c : cases) run_case(c, chosen, options, unsupported);
    for (const auto &[reason, count] : unsupported)
        std::printf("skipped: %d cases not supported: %s\n", count, reason.c_str());
    std::printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed ? 1 : passed == 0 ? 77 : 0;
}

} // namespace

int main(int argc, char **argv) {
    try {
        return run_all(parse_options(argc, argv));
    } catch (const std::exception &error) {
        std::fprintf(stderr, "conform: %s\n", error.what());
        return 2;
    }
}
