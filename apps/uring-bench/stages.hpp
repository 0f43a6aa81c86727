// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the rates of `uring-bench stages` say of the loader.

#include <string>
#include <string_view>

namespace ringload::bench {

struct legs_rates {
  std::string_view wall_title;  // The slower of the drive alone and the copies alone.
  double wall = 0;              // All in GB/s.
  double both = 0;              // The pipeline without a format.
  double loader = 0;

  double share_of_wall() const noexcept { return loader / wall; }
  double share_of_both() const noexcept { return loader / both; }
  /// False if the loader is faster than its wall by more than runs differ on an idle machine: then
  /// something else has slowed the wall's runs down.
  bool is_conclusive() const noexcept;
};

/// "The wall is drive alone, into slots. The loader reaches 0.950 of it, ..."
std::string verdict_of(const legs_rates& rates);

}  // namespace ringload::bench
