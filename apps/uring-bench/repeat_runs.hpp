// SPDX-License-Identifier: Apache-2.0
#pragma once

// Measures a cell several times, and reports the median with minimum and maximum.

#include <cstdint>
#include <vector>

#include "config.hpp"

namespace ringload::bench {

/// Returns the median: the value in the middle, or the mean of the two values in the middle, or 0
/// without values.
double median(std::vector<double> values);

class repeated {
 public:
  void add(measurement one) { runs_.push_back(std::move(one)); }

  const std::vector<measurement>& runs() const noexcept { return runs_; }

  /// Returns the median of a figure over all runs.
  template <class Figure>
  double median_of(Figure figure) const {
    std::vector<double> values;
    for (const measurement& one : runs_) values.push_back(static_cast<double>(figure(one)));
    return median(std::move(values));
  }

  double gb_per_s() const {
    return median_of([](const measurement& m) { return m.gb_per_s(); });
  }
  double least_gb_per_s() const;
  double most_gb_per_s() const;

  /// Returns the run whose rate is nearest to the median. At least one run must exist.
  const measurement& typical() const;

 private:
  std::vector<measurement> runs_;
};

}  // namespace ringload::bench
