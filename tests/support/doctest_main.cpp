// main of all doctest programs. Its last line is what tools/test adds up: see report.h.
#define DOCTEST_CONFIG_IMPLEMENT
#include "doctest.hpp"

#include <cstdio>

namespace {

int passed, failed, skipped;
bool skip_this_case;

// Counts cases. doctest has no case that skips itself while it runs, so it is done here.
struct Counter : doctest::IReporter {
    explicit Counter(const doctest::ContextOptions &) {}

    void test_case_start(const doctest::TestCaseData &) override { skip_this_case = false; }
    void test_case_end(const doctest::CurrentTestCaseStats &stats) override {
        ++(stats.failure_flags ? failed : skip_this_case ? skipped : passed);
    }

    void report_query(const doctest::QueryData &) override {}
    void test_run_start() override {}
    void test_run_end(const doctest::TestRunStats &) override {}
    void test_case_reenter(const doctest::TestCaseData &) override {}
    void test_case_exception(const doctest::TestCaseException &) override {}
    void subcase_start(const doctest::SubcaseSignature &) override {}
    void subcase_end() override {}
    void log_assert(const doctest::AssertData &) override {}
    void log_message(const doctest::MessageData &) override {}
    void test_case_skipped(const doctest::TestCaseData &) override {}
};
REGISTER_LISTENER("counter", 1, Counter);

} // namespace

void vfa_test::skip(const std::string &reason) {
    skip_this_case = true;
    std::printf("skipped: %s\n", reason.c_str());
}

int main(int argc, char **argv) {
    doctest::Context context(argc, argv);
    const int status = context.run();
    if (context.shouldExit()) // --help, --list-test-cases
        return status;
    std::fflush(stdout);
    std::printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed ? 1 : passed == 0 && skipped ? 77 : status;
}
