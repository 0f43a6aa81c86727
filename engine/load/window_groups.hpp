// SPDX-License-Identifier: Apache-2.0
#pragma once

// Divides the tensors of a load with a window into groups. Pure functions.

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

// Returns the page size. Each allocation of tensor memory is a multiple of this size.
std::uint64_t window_page_bytes(const device& on, const loader_options& options) noexcept;

// Divides the tensors into groups without changing their order. `bytes` contains the size of each
// loaded tensor. Memory is allocated in multiples of `page_bytes`. The sizes of groups include
// padding, because a long run of adjacent tensors may begin at a multiple of `slot_bytes`. If a
// tensor does not fit into the window, fails with errc::memory_exceeded and sets `failed_tensor` to
// the index of the tensor.
result<std::vector<window_group>> make_window_groups(const std::vector<std::uint64_t>& bytes,
                                                     std::uint64_t window_bytes,
                                                     std::uint64_t page_bytes,
                                                     std::uint32_t& failed_tensor,
                                                     std::uint64_t slot_bytes);

}  // namespace ringload::inline v0::detail
