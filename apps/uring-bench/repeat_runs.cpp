// SPDX-License-Identifier: Apache-2.0
#include "repeat_runs.hpp"

#include <algorithm>
#include <cmath>

namespace ringload::bench {

namespace {

bool slower(const measurement& a, const measurement& b) { return a.gb_per_s() < b.gb_per_s(); }

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double repeated::least_gb_per_s() const {
  return std::min_element(runs_.begin(), runs_.end(), slower)->gb_per_s();
}

double repeated::most_gb_per_s() const {
  return std::max_element(runs_.begin(), runs_.end(), slower)->gb_per_s();
}

const measurement& repeated::typical() const {
  const double middle = gb_per_s();
  return *std::min_element(runs_.begin(), runs_.end(), [&](const auto& a, const auto& b) {
    return std::abs(a.gb_per_s() - middle) < std::abs(b.gb_per_s() - middle);
  });
}

}  // namespace ringload::bench
