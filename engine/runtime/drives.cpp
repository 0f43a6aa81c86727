// SPDX-License-Identifier: Apache-2.0
#include "runtime/drives.hpp"

namespace ringload::inline v0::detail {

drive& drives::of(std::uint64_t id) {
  const auto at = std::ranges::find(all_, id, &drive::id);
  if (at != all_.end()) return *at;
  if (all_.size() == drives_max) return all_.back();
  const std::lock_guard lock(mutex_);
  return all_.emplace_back(loop_, within_, id);
}

std::uint64_t drives::bytes_in_flight_max() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t most = 0;
  for (const drive& each : all_) most = std::max(most, each.admission.bytes_max());
  return most > 0 ? most : first_bytes_in_flight(within_);
}

}  // namespace ringload::inline v0::detail
