// SPDX-License-Identifier: Apache-2.0
#pragma once

// How much of a file is in the page cache, from `cachestat` only: for files of another owner
// `mincore` reports every page as resident, and RWF_NOWAIT starts readahead on a cache miss.

#include <cstdint>
#include <optional>

namespace ringload::inline v0 {

enum class residency : std::uint8_t {
  cold,     // Less than nine tenths are in the page cache.
  cached,   // At least nine tenths, or both ends of a long range: a copy is faster than the drive.
  dirty,    // Not yet on the drive. A direct read would first write it back.
  unknown,  // No cachestat: Linux before 6.5, or the file has another owner.
};

struct page_counts {
  std::uint64_t pages = 0;  // That the range touches.
  std::uint64_t cached = 0;
  std::uint64_t dirty = 0;  // Including pages under writeback.
};

// Empty without cachestat.
std::optional<page_counts> cached_pages(int fd, std::uint64_t offset, std::uint64_t bytes) noexcept;

// Costs 0.1 us for a cold range. Each cached MiB takes 1 us to count, which is a fiftieth of the
// time to copy it; so of a range of more than 256 KiB the first and the last 64 KiB are counted,
// and all of it only where these are not cached as a whole. What lies between is then nearly always
// cached as well, since files are read and dropped in order; if not, a buffered read still brings
// it.
residency residency_of(int fd, std::uint64_t offset, std::uint64_t bytes) noexcept;

}  // namespace ringload::inline v0
