// SPDX-License-Identifier: Apache-2.0
#pragma once

// A cell measured several times, reported as the median with minimum and maximum.

#include <cstdint>
#include <vector>

#include "config.hpp"

namespace ringload::bench {

/// The middle one; of an even number, the mean of the two in the middle; 0 of none.
double median(std::vector<double> of);

class repeated {
 public:
  void add(measurement one) { runs_.push_back(std::move(one)); }

  const std::vector<measurement>& runs() const noexcept { return runs_; }

  /// The median of any figure of the runs.
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

  /// The run whose rate is nearest to the median. There is one at least.
  const measurement& typical() const;

 private:
  std::vector<measurement> runs_;
};

}  // namespace ringload::bench
