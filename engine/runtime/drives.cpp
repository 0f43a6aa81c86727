// SPDX-License-Identifier: Apache-2.0
#include "runtime/drives.hpp"

namespace ringload::inline v0::detail {

drive& drives::find_or_add(std::uint64_t id, bool is_distant) {
  const auto found = std::ranges::find(drives_, id, &drive::id);
  if (found != drives_.end()) return *found;
  if (drives_.size() == drives_max) return drives_.back();
  const std::lock_guard lock(mutex_);
  return drives_.emplace_back(loop_, options_, is_distant ? slots_max_ : 0, id);
}

std::uint64_t drives::bytes_in_flight_max() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t largest = 0;
  for (const drive& listed : drives_) largest = std::max(largest, listed.admission.bytes_max());
  return largest > 0 ? largest : first_bytes_in_flight(options_);
}

}  // namespace ringload::inline v0::detail
