// SPDX-License-Identifier: Apache-2.0
#pragma once

// Compares the rates of `uring-bench stages` with the rate of the loader.

#include <string>
#include <string_view>

namespace ringload::bench {

struct legs_rates {
  std::string_view wall_title;  // The slower of the two: the drive alone or the copies alone.
  double wall = 0;              // All rates are in GB/s.
  double both = 0;              // The pipeline without a format.
  double loader = 0;

  double share_of_wall() const noexcept { return loader / wall; }
  double share_of_both() const noexcept { return loader / both; }
  /// Returns false if the loader is faster than its upper bound by more than the noise of an idle
  /// machine. The runs of the upper bound were then slowed down by another cause.
  bool is_conclusive() const noexcept;
};

/// Returns a text such as "The wall is drive alone, into slots. The loader reaches 0.950 of it,
/// ..."
std::string verdict_of(const legs_rates& rates);

}  // namespace ringload::bench
