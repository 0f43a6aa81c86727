// SPDX-License-Identifier: Apache-2.0
#pragma once

// Anonymous memory on the largest pages available: huge pages made direct reads 2.6 times as fast
// when measured, and no other property of the memory mattered.

#include <boost/system/error_code.hpp>
#include <cstddef>
#include <cstdint>
#include <ringload/export.hpp>
#include <span>
#include <string_view>
#include <utility>

#include "core/fault.hpp"
#include "core/logged_allocation.hpp"

namespace ringload::inline v0 {

inline constexpr std::uint64_t huge_page_bytes = std::uint64_t{2} << 20;

enum class page_kind : std::uint8_t { small, transparent, hugetlb };

/// "4k", "thp", "hugetlb".
std::string_view name(page_kind kind) noexcept;

// Shown to ringload_cuda too.
class RINGLOAD_EXPORT mapping {
 public:
  mapping() = default;
  mapping(mapping&& other) noexcept
      : memory_(std::exchange(other.memory_, {})), logged_(std::move(other.logged_)) {}
  mapping& operator=(mapping&& other) noexcept;
  ~mapping();

  // Zeroed memory, not populated, of `bytes` rounded up to small pages, or to huge ones where
  // `kind` is `hugetlb`; 2 MiB aligned unless it is smaller than that. `kind` is what to ask for:
  // `hugetlb` fails where too few such pages are reserved and free, `transparent` is a wish.
  static result<mapping> make(std::uint64_t bytes, page_kind kind);

  // Takes over what is mapped, to unmap it.
  static mapping of(std::span<std::byte> mapped) noexcept { return mapping(mapped); }

  // Writes it into the log, and its end when that comes.
  void note_in(const allocation_log& log) noexcept {
    logged_ = logged_allocation(log, {"mmap", "munmap"}, data(), bytes());
  }

  std::byte* data() const noexcept { return memory_.data(); }
  std::uint64_t bytes() const noexcept { return memory_.size(); }
  std::span<std::byte> span() const noexcept { return memory_; }

 private:
  explicit mapping(std::span<std::byte> memory) noexcept : memory_(memory) {}

  std::span<std::byte> memory_;
  logged_allocation logged_;
};

// What the pages of a mapping really are: `transparent` if most of those present are. The kernel
// walks all pages of the process to answer.
page_kind kind_of(std::span<const std::byte> memory);

// Puts new, zeroed memory at the addresses of whole huge pages of a mapping.
boost::system::error_code map_again(std::span<std::byte> memory, page_kind kind) noexcept;

// Makes the pages of `memory` present and writable (MADV_POPULATE_WRITE), so that there are no page
// faults later. Does nothing before Linux 5.14. Any thread, concurrently too. Shown to
// ringload_cuda too.
RINGLOAD_EXPORT boost::system::error_code populate(std::span<std::byte> memory) noexcept;

// How much of anonymous memory is not present: never written, or swapped out. Samples one small
// page of each huge page.
std::uint64_t absent_bytes(std::span<const std::byte> memory) noexcept;

}  // namespace ringload::inline v0
