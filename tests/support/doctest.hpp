// doctest for the tests here. The program's main is doctest_main.cpp: link doctest_dep.
#pragma once

#define DOCTEST_CONFIG_SUPER_FAST_ASSERTS // tests compile in half the time
#include <doctest/doctest.h>

#include <string>

namespace vfa_test {

// The running test case cannot run here: prints the reason, and the case counts as skipped. Return
// from the case after it.
void skip(const std::string &reason);

} // namespace vfa_test
