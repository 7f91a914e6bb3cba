/*
 * report.h - what test programs in C print. tools/test adds up their last lines:
 *
 *     N passed, N failed, N skipped
 *
 * A program that dies without this line counts as one failure; one that ends with 77 counts as
 * skipped. What is skipped says "skipped: reason".
 */
#ifndef VFA_TESTS_REPORT_H
#define VFA_TESTS_REPORT_H

#include <stdio.h>

static int report_passed, report_failed, report_skipped;

#define CHECK(condition) report_check(!!(condition), #condition, __FILE__, __LINE__)

static inline int report_check(int ok, const char *what, const char *file, int line) {
    if (ok) {
        report_passed++;
    } else {
        report_failed++;
        printf("%s:%d: failed: %s\n", file, line, what);
    }
    return ok;
}

static inline void report_skip(const char *reason) {
    report_skipped++;
    printf("skipped: %s\n", reason);
}

/* Prints the last line; returns what main returns. */
static inline int report_end(void) {
    printf("%d passed, %d failed, %d skipped\n", report_passed, report_failed, report_skipped);
    return report_failed ? 1 : report_passed == 0 && report_skipped ? 77 : 0;
}

#endif
