// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/transfer.hpp"

namespace ringload::inline v0::cuda {

namespace {

bool small(const copy_op& one) { return one.bytes < call_worth_bytes; }

// Bytes that nobody wants are copied where that is cheaper than another call.
void stage(std::vector<slot_range>& ranges, const copy_op& one) {
  const std::uint32_t end = one.slot_offset + one.bytes;
  if (ranges.empty() || one.slot_offset > ranges.back().end + call_worth_bytes) {
    ranges.push_back({one.slot_offset, end});
  } else {
    ranges.back().begin = std::min(ranges.back().begin, one.slot_offset);
    ranges.back().end = std::max(ranges.back().end, end);
  }
}

}  // namespace

void plan_transfer(std::span<const copy_op> copies, transfer& how) {
  how.direct.clear();
  how.scattered.clear();
  how.boxed.clear();
  how.staged.clear();
  const auto small_copies = std::count_if(copies.begin(), copies.end(), [](const copy_op& one) {
    return !one.as.needed() && one.map == no_index && small(one);
  });
  const bool scatters = static_cast<std::size_t>(small_copies) >= scattered_copies_min;
  for (const copy_op& one : copies) {
    if (one.bytes == 0) continue;
    if (one.map != no_index || is_block(one.as.from)) {
      how.boxed.push_back(one);
      stage(how.staged, one);
    } else if (one.as.needed() || (scatters && small(one))) {
      how.scattered.push_back(one);
      stage(how.staged, one);
    } else {
      how.direct.push_back(one);
    }
  }
}

}  // namespace ringload::inline v0::cuda
