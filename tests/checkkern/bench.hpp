// bench.hpp - how fast kernels are.
#pragma once
#include <cstdio>
#include <string>
#include <vector>

#include "kernels/cpu/dispatch.hpp"

namespace checkkern {

// Times the kernels over a list of shapes whose names contain filter, prints a table, and writes a JSON
// array of the same numbers to json if that is not null. The first two kernels are those that the others
// are compared with.
void bench(const std::vector<const vfa::cpu::Kernels *> &kernels, const std::string &filter,
           int rounds, std::FILE *json);
std::vector<std::string> bench_names();

} // namespace checkkern
