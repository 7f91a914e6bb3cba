#include "statistics.hpp"

#include <gsl/gsl_cdf.h>
#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics.h>

namespace bench {

Summary summarize(std::vector<double> samples) {
    gsl_sort(samples.data(), 1, samples.size());
    const auto quantile = [&](double f) {
        return gsl_stats_quantile_from_sorted_data(samples.data(), 1, samples.size(), f);
    };
    const double median = quantile(0.5);
    return {samples.front(), median, (quantile(0.75) - quantile(0.25)) / median};
}

Interval median_interval(std::vector<double> samples) {
    gsl_sort(samples.data(), 1, samples.size());
    const size_t n = samples.size();
    // The number of samples below the true median is binomial(n, 1/2): the first rank that has more
    // than 2.5 % of it below.
    size_t rank = 0;
    while (rank < n / 2 && gsl_cdf_binomial_P((unsigned)rank, 0.5, (unsigned)n) < 0.025) rank++;
    return {gsl_stats_median_from_sorted_data(samples.data(), 1, n), samples[rank ? rank - 1 : 0],
            samples[n - 1 - (rank ? rank - 1 : 0)]};
}

} // namespace bench
