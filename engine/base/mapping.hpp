// SPDX-License-Identifier: Apache-2.0
#pragma once

// Anonymous memory on the largest available pages. Huge pages made direct reads 2.6 times as fast
// in measurements; no other property of the memory mattered.

#include <boost/system/error_code.hpp>
#include <cstddef>
#include <cstdint>
#include <ringload/export.hpp>
#include <span>
#include <string_view>
#include <utility>

#include "base/fault.hpp"
#include "base/logged_allocation.hpp"

namespace ringload::inline v0 {

inline constexpr std::uint64_t huge_page_bytes = std::uint64_t{2} << 20;

enum class page_kind : std::uint8_t { small, transparent, hugetlb };

std::string_view name(page_kind kind) noexcept;

// Exported for ringload_cuda.
class RINGLOAD_EXPORT mapping {
 public:
  mapping() = default;
  mapping(mapping&& source) noexcept
      : memory_(std::exchange(source.memory_, {})), logged_(std::move(source.logged_)) {}
  mapping& operator=(mapping&& source) noexcept;
  ~mapping();

  // Creates zeroed, unpopulated memory. The size is rounded up to small pages, or to huge pages for
  // `hugetlb`. From 2 MiB on the memory is aligned to 2 MiB. `hugetlb` fails if too few reserved
  // pages are free; `transparent` is only a hint.
  static result<mapping> make(std::uint64_t bytes, page_kind kind);

  // Takes ownership of an existing mapping.
  static mapping adopt(std::span<std::byte> mapped) noexcept { return mapping(mapped); }

  // Writes the allocation to the log now, and the release when the memory is unmapped.
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

// Returns the actual page kind: `transparent` if most present pages are huge. The kernel walks all
// pages of the process for this.
page_kind kind_of(std::span<const std::byte> memory);

// Replaces whole huge pages of a mapping by new, zeroed memory at the same addresses.
boost::system::error_code map_again(std::span<std::byte> memory, page_kind kind) noexcept;

// Makes the pages of `memory` present and writable (MADV_POPULATE_WRITE), which avoids later page
// faults. Does nothing before Linux 5.14. Thread-safe. Exported for ringload_cuda.
RINGLOAD_EXPORT boost::system::error_code populate(std::span<std::byte> memory) noexcept;

// Returns how many bytes of anonymous memory are not present: never written, or swapped out.
// Samples one small page of each huge page.
std::uint64_t absent_bytes(std::span<const std::byte> memory) noexcept;

}  // namespace ringload::inline v0
