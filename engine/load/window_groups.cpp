// SPDX-License-Identifier: Apache-2.0
#include "load/window_groups.hpp"

#include <algorithm>

#include "base/checked.hpp"
#include "base/io_unit.hpp"
#include "base/mapping.hpp"

namespace ringload::inline v0::detail {

namespace {

// A group takes a sixteenth of the window. This keeps enough bytes in flight for a drive, and a
// held tensor keeps only little memory from being freed.
constexpr std::uint64_t groups_in_window = 16;

// Larger than any memory. Keeps the sums below from overflowing.
constexpr std::uint64_t group_bytes_max = std::uint64_t{1} << 62;

// Returns an upper bound. A tensor has the same offset in its block as in the file, so it may need
// two blocks more than its bytes.
std::uint64_t arena_bytes_of(std::uint64_t bytes, std::uint32_t tensors, std::uint64_t page_bytes) {
  return round_up(bytes + std::uint64_t{tensors} * 2 * block_bytes, page_bytes);
}

}  // namespace

std::uint64_t window_page_bytes(const device& on, const loader_options& within) noexcept {
  const bool small = on.kind() == device_kind::host && within.cached_bytes == 0 &&
                     within.huge_pages != huge_pages::reserved;
  return small ? std::uint64_t{block_bytes} : huge_page_bytes;
}

result<std::vector<window_group>> make_window_groups(const std::vector<std::uint64_t>& bytes,
                                                     std::uint64_t window_bytes,
                                                     std::uint64_t page_bytes,
                                                     std::uint32_t& culprit) {
  const std::uint64_t usable_bytes = std::min(window_bytes, group_bytes_max);
  const std::uint64_t group_bytes = usable_bytes / groups_in_window;
  std::vector<window_group> groups;
  std::uint64_t sum = 0;
  for (std::uint32_t t = 0; t < bytes.size(); ++t) {
    const auto joined_sum = checked_add(sum, bytes[t]);
    const bool joins =
        !groups.empty() && joined_sum && *joined_sum < usable_bytes &&
        arena_bytes_of(*joined_sum, t + 1 - groups.back().first, page_bytes) <= group_bytes;
    if (!joins) groups.push_back({t, t, 0});
    sum = joins ? *joined_sum : bytes[t];
    window_group& group = groups.back();
    group.last = t + 1;
    group.bytes =
        sum <= usable_bytes ? arena_bytes_of(sum, group.last - group.first, page_bytes) : sum;
    if (group.bytes > usable_bytes) {
      culprit = t;
      return fault{errc::memory_exceeded, "",
                   "the tensor and its pages take up to " + grouped(group.bytes) +
                       " bytes, and the window has " + grouped(window_bytes)};
    }
  }
  return groups;
}

}  // namespace ringload::inline v0::detail
