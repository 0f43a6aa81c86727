// SPDX-License-Identifier: Apache-2.0
#pragma once

// Finds how much of a file is in the page cache. Only `cachestat` is used: for files of another
// owner `mincore` reports every page as resident, and RWF_NOWAIT starts readahead on a cache miss.

#include <cstdint>
#include <optional>

namespace ringload::inline v0 {

enum class residency : std::uint8_t {
  cold,     // Less than nine tenths are in the page cache.
  cached,   // At least nine tenths, or both ends of a long range: a copy is faster than the drive.
  dirty,    // Not on the drive yet. A direct read would first write it back.
  unknown,  // No cachestat: Linux before 6.5, or the file has another owner.
};

struct page_counts {
  std::uint64_t pages = 0;  // Pages that the range touches.
  std::uint64_t cached = 0;
  std::uint64_t dirty = 0;  // Including pages under writeback.
};

// Returns no counts without cachestat.
std::optional<page_counts> cached_pages(int fd, std::uint64_t offset, std::uint64_t bytes) noexcept;

// Costs 0.1 us for a cold range. Counting takes 1 us for each cached MiB, which is a fiftieth of
// the time to copy it. So in a range of more than 256 KiB only the first and the last 64 KiB are
// counted, and the whole range only if one of these is not fully cached. The bytes between them are
// then nearly always cached too, since files are read and dropped in order. If they are not, a
// buffered read still fetches them.
residency residency_of(int fd, std::uint64_t offset, std::uint64_t bytes) noexcept;

}  // namespace ringload::inline v0
