// SPDX-License-Identifier: Apache-2.0
#pragma once

// Anonymous memory on the largest pages that can be had. How contiguous the pages are is the one
// thing that moved the bandwidth of direct reads when it was measured: 2.6 times.

#include <boost/system/error_code.hpp>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "core/fault.hpp"

namespace ringload::inline v0 {

inline constexpr std::uint64_t huge_page_bytes = std::uint64_t{2} << 20;

enum class page_kind : std::uint8_t { small, transparent, hugetlb };

/// "4k", "thp", "hugetlb".
std::string_view name(page_kind kind) noexcept;

class mapping {
 public:
  mapping() = default;
  mapping(mapping&& other) noexcept : memory_(std::exchange(other.memory_, {})) {}
  mapping& operator=(mapping&& other) noexcept;
  ~mapping();

  // Zeroed memory, not populated, of `bytes` rounded up to small pages, or to huge ones where
  // `kind` is `hugetlb`; 2 MiB aligned unless it is smaller than that. `kind` is what to ask for:
  // `hugetlb` fails where too few such pages are reserved and free, `transparent` is a wish.
  static result<mapping> make(std::uint64_t bytes, page_kind kind);

  std::byte* data() const noexcept { return memory_.data(); }
  std::uint64_t bytes() const noexcept { return memory_.size(); }
  std::span<std::byte> span() const noexcept { return memory_; }

 private:
  explicit mapping(std::span<std::byte> memory) noexcept : memory_(memory) {}

  std::span<std::byte> memory_;
};

// What the pages of a mapping really are: `transparent` if most of those present are. The kernel
// walks all pages of the process to answer.
page_kind kind_of(std::span<const std::byte> memory);

// Puts new, zeroed memory at the addresses of whole huge pages of a mapping.
boost::system::error_code map_again(std::span<std::byte> memory, page_kind kind) noexcept;

// Makes the pages under `memory` present and writable, so that neither the kernel nor the drive
// waits for them later. Before Linux 5.14 it does nothing. Any thread, also side by side.
boost::system::error_code populate(std::span<std::byte> memory) noexcept;

// How much of anonymous memory is not present: what was never written to, and what was swapped out.
// From a look at each huge page, at one of its small ones.
std::uint64_t absent_bytes(std::span<const std::byte> memory) noexcept;

}  // namespace ringload::inline v0
