// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "load/await_copy.hpp"
#include "request/destinations.hpp"

namespace ringload::inline v0::detail {

// The copies of one slot, divided by device.
struct split_copies {
  std::vector<copy_op> order;
  std::vector<device_copies> slot_copies;
  std::vector<device_copies> peer_copies;  // Copies between devices, made after `slot_copies`.

  split_copies(const destinations& into, const copy_operation& request) {
    for (const destinations::share& share : into.split_copies_by_backend(request.copies, order)) {
      device_copies copies = {share.copier, share.operation_of(request)};
      // Only the first of the slot copies records the times.
      if (copies.request.peer || !slot_copies.empty()) copies.request.times = nullptr;
      (copies.request.peer ? peer_copies : slot_copies).push_back(copies);
    }
  }
};

}  // namespace ringload::inline v0::detail
