// SPDX-License-Identifier: Apache-2.0

#include "load/window_groups.hpp"

#include <algorithm>

#include "base/checked.hpp"
#include "base/io_unit.hpp"
#include "base/mapping.hpp"
#include "plan/make_plan.hpp"

namespace ringload::inline v0::detail {

namespace {

// A group of several tensors takes at most 1/16 of the window, so that enough groups are in flight
// for a fast drive. A small group also limits the memory that one tensor keeps occupied, because a
// tensor keeps the memory of its group alive.
constexpr std::uint64_t groups_in_window = 16;

// This limit is larger than any real memory, and prevents an overflow of the sums below.
constexpr std::uint64_t group_bytes_max = std::uint64_t{1} << 62;

// Returns an upper bound of the memory that `tensors` tensors with a total of `bytes` bytes need. A
// tensor has the same offset within a 4 KiB block as in the file, or is shifted by about half a
// block, so the tensor may occupy three additional blocks. A long run of adjacent tensors begins at
// a multiple of the slot size, and may need padding of up to one slot. A single tensor needs no
// such padding, because the tensor begins at the start of its memory.
std::uint64_t arena_bytes_of(std::uint64_t bytes, std::uint32_t tensors, std::uint64_t page_bytes,
                             std::uint64_t slot_bytes) {
  const std::uint64_t block_sum = bytes + std::uint64_t{tensors} * 3 * block_bytes;
  const std::uint64_t long_runs = tensors > 1 ? block_sum / placement_rules().aligned_run_bytes : 0;
  return round_up(block_sum + long_runs * slot_bytes, page_bytes);
}

}  // namespace

std::uint64_t window_page_bytes(const device& on, const loader_options& options) noexcept {
  const bool small = on.kind() == device_kind::host && options.cached_bytes == 0 &&
                     options.huge_pages != huge_pages::reserved;
  return small ? std::uint64_t{block_bytes} : huge_page_bytes;
}

result<std::vector<window_group>> make_window_groups(const std::vector<std::uint64_t>& bytes,
                                                     std::uint64_t window_bytes,
                                                     std::uint64_t page_bytes,
                                                     std::uint32_t& failed_tensor,
                                                     std::uint64_t slot_bytes) {
  const std::uint64_t usable_bytes = std::min(window_bytes, group_bytes_max);
  const std::uint64_t group_bytes = usable_bytes / groups_in_window;
  std::vector<window_group> groups;
  std::uint64_t sum = 0;
  for (std::uint32_t t = 0; t < bytes.size(); ++t) {
    const auto joined_sum = checked_add(sum, bytes[t]);
    const auto arena_bytes = [&](std::uint64_t tensor_bytes, std::uint32_t first) {
      return arena_bytes_of(tensor_bytes, t + 1 - first, page_bytes, slot_bytes);
    };
    const bool joins = !groups.empty() && joined_sum && *joined_sum <= group_bytes &&
                       arena_bytes(*joined_sum, groups.back().first) <= group_bytes;
    if (!joins) groups.push_back({t, t, 0});
    sum = joins ? *joined_sum : bytes[t];
    window_group& group = groups.back();
    group.last = t + 1;
    group.bytes = sum <= usable_bytes ? arena_bytes(sum, group.first) : sum;
    if (group.bytes > usable_bytes) {
      failed_tensor = t;
      return fault{errc::memory_exceeded, "",
                   "the tensor needs up to " + grouped(group.bytes) +
                       " bytes in whole pages, but the window has " + grouped(window_bytes)};
    }
  }
  return groups;
}

}  // namespace ringload::inline v0::detail
