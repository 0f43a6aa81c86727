// SPDX-License-Identifier: Apache-2.0
#pragma once

// Cuts the tensors of a load through a window into groups that are loaded one after the other.
// Pure.

#include <cstdint>
#include <ringload/device.hpp>
#include <ringload/options.hpp>
#include <vector>

#include "base/fault.hpp"

namespace ringload::inline v0::detail {

// Tensors [first, last) of what is chosen, and an upper bound of the memory that they take.
struct window_group {
  std::uint32_t first;
  std::uint32_t last;
  std::uint64_t bytes;
};

// The size that allocations for tensors are a multiple of.
std::uint64_t window_page_bytes(const device& on, const loader_options& within) noexcept;

// Cuts the tensors into groups; `bytes` is by tensor, loaded, and memory is taken in multiples of
// `page_bytes`. Fails with errc::memory_exceeded if a tensor does not fit into the window, and then
// `culprit` is its index.
result<std::vector<window_group>> make_window_groups(const std::vector<std::uint64_t>& bytes,
                                                     std::uint64_t window_bytes,
                                                     std::uint64_t page_bytes,
                                                     std::uint32_t& culprit);

}  // namespace ringload::inline v0::detail
