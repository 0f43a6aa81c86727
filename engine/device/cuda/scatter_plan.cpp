// SPDX-License-Identifier: Apache-2.0

#include "device/cuda/scatter_plan.hpp"

namespace ringload::inline v0::cuda {

namespace {

bool small(const copy_op& copy) { return copy.bytes < call_worth_bytes; }

// Adds the copy to the staged ranges. Joins ranges if a transfer of the bytes between them is
// faster than another call.
void stage(std::vector<slot_range>& ranges, const copy_op& copy) {
  const std::uint32_t end = copy.slot_offset + copy.bytes;
  if (ranges.empty() || copy.slot_offset > ranges.back().end + call_worth_bytes) {
    ranges.push_back({copy.slot_offset, end});
  } else {
    ranges.back().begin = std::min(ranges.back().begin, copy.slot_offset);
    ranges.back().end = std::max(ranges.back().end, end);
  }
}

// Returns true if the destination address is a multiple of the element size. The kernel for
// contiguous pieces needs such addresses. Memory of the caller may be misaligned.
bool lands_aligned(const copy_op& copy, std::span<std::byte* const> destinations) {
  const std::byte* const to = destinations[copy.destination] + copy.destination_offset;
  return reinterpret_cast<std::uintptr_t>(to) % copy.cast.to_bytes() == 0;
}

}  // namespace

void plan_transfer(std::span<const copy_op> copies, std::span<std::byte* const> destinations,
                   bool has_kernels, transfer& plan) {
  plan.direct.clear();
  plan.scattered.clear();
  plan.boxed.clear();
  plan.staged.clear();
  const auto small_copies = std::count_if(copies.begin(), copies.end(), [](const copy_op& copy) {
    return !copy.cast.needed() && copy.map == no_index && small(copy);
  });
  const bool scatters =
      has_kernels && static_cast<std::size_t>(small_copies) >= scattered_copies_min;
  for (const copy_op& copy : copies) {
    if (copy.bytes == 0) continue;
    const bool is_misaligned = copy.cast.needed() && !lands_aligned(copy, destinations);
    if (copy.map != no_index || is_block(copy.cast.from) || is_misaligned) {
      plan.boxed.push_back(copy);
      stage(plan.staged, copy);
    } else if (copy.cast.needed() || (scatters && small(copy))) {
      plan.scattered.push_back(copy);
      stage(plan.staged, copy);
    } else {
      plan.direct.push_back(copy);
    }
  }
}

}  // namespace ringload::inline v0::cuda
