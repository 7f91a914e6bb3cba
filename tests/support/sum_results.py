#!/usr/bin/env python3
"""sum_results.py LABEL TESTLOG_JSON: adds up what the test programs of one Meson run counted.

Each program ends with "N passed, N failed, N skipped" (see report.h); this prints the same line for
all of them, after the reasons of what was skipped and the names of programs that failed.
"""

import json
import re
import sys

COUNTS = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", re.MULTILINE)


def counts(test):
    """(passed, failed, skipped) of one program."""
    lines = COUNTS.findall(test.get("stdout") or "")
    result = test["result"]
    passed, failed, skipped = map(int, lines[-1]) if lines else (0, 0, 0)
    if result == "OK":
        # A program that counts nothing is one case.
        return (passed, failed, skipped) if lines else (1, 0, 0)
    if result == "SKIP":
        return (passed, failed, skipped) if lines else (0, 0, 1)
    # It failed, or died before or after its last line.
    return passed, max(failed, 1), skipped


def main():
    label, path = sys.argv[1:]
    total = (0, 0, 0)
    with open(path, encoding="utf-8") as log:
        for test in map(json.loads, log):
            one = counts(test)
            total = tuple(a + b for a, b in zip(total, one))
            name = label + ": " + test["name"].split(":")[-1]  # "suite - vfa:name"
            for reason in re.findall(r"^skipped: (.*)$", test.get("stdout") or "", re.MULTILINE):
                print(f"skipped: {name}: {reason}")
            if one[1]:
                print(f"failed: {name} ({one[1]} failed, {test['result']})")
    print("{} passed, {} failed, {} skipped".format(*total))


main()
