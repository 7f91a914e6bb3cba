// statistics.hpp - what is reported of a list of times.
#pragma once
#include <vector>

namespace bench {

struct Summary {
    double min, median;
    double spread; // interquartile range over the median
};
Summary summarize(std::vector<double> samples);

struct Interval {
    double median, low, high; // of the median, 95 %
};
// Without an assumption on the distribution: order statistics around the middle.
Interval median_interval(std::vector<double> samples);

} // namespace bench
