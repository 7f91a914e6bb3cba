// oracle.hpp - what attention is, in double precision, straight from the formula; and whether a result
// is it.
#pragma once
#include <string>
#include <vector>

#include "case.hpp"
#include "library.hpp"

namespace conform {

struct Truth {
    std::vector<double> o, lse; // [total_q][heads_q][dv], [total_q][heads_q]
    // What rounding does to them:
    std::vector<double> recipe;    // o of the plain recipe: P rounded once, o rounded once
    std::vector<double> magnitude; // sum_j P |v_j|, as o
    std::vector<double> logit;     // of each row: the largest sum of magnitudes that made a logit
    std::vector<double> keys;      // of each row: how many it sees
};

Truth truth_of(const Problem &problem);

// "" if the result is the truth within the tolerances of the contract, else the first thing wrong.
std::string judge(const Problem &problem, const Truth &truth, const Result &result);

} // namespace conform
