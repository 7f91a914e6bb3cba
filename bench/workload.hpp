// workload.hpp - what vfa-bench runs: workloads by name, or cases as text.
#pragma once
#include <string>
#include <vector>

#include "case.hpp" // of tests/conform: one problem as a line of text

namespace bench {

struct Workload {
    std::string name;
    std::string about;
    conform::Case problem; // dtype is set for each run
};

const std::vector<Workload> &named_workloads();

// A name of the list, or a case as text ("seqs=128,30 hq=4 d=64"). Throws std::invalid_argument.
Workload find_workload(const std::string &text);

// Floating-point operations of both matrix products over visible pairs.
double flops_of(const conform::Case &problem);

} // namespace bench
