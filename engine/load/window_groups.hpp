// SPDX-License-Identifier: Apache-2.0
#pragma once

// Divides the tensors of a load with a window into groups, which are loaded in order. Pure
// functions.

#include <cstdint>
#include <ringload/device.hpp>
#include <ringload/options.hpp>
#include <vector>

#include "base/fault.hpp"

namespace ringload::inline v0::detail {

// The chosen tensors [first, last), and an upper bound of their memory.
struct window_group {
  std::uint32_t first;
  std::uint32_t last;
  std::uint64_t bytes;
};

// Allocations for tensors are multiples of this size.
std::uint64_t window_page_bytes(const device& on, const loader_options& within) noexcept;

// Divides the tensors into groups. `bytes` has the loaded size of each tensor. Memory is allocated
// in multiples of `page_bytes`. Fails with errc::memory_exceeded if a tensor does not fit into the
// window. `culprit` is then the index of the tensor.
result<std::vector<window_group>> make_window_groups(const std::vector<std::uint64_t>& bytes,
                                                     std::uint64_t window_bytes,
                                                     std::uint64_t page_bytes,
                                                     std::uint32_t& culprit);

}  // namespace ringload::inline v0::detail
