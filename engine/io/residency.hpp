// SPDX-License-Identifier: Apache-2.0
#pragma once

// Finds how much of a file is in the page cache, so that a load can choose between a direct and a
// buffered read. Only `cachestat` is suitable: `mincore` reports every page of a file of another
// owner as resident, and reads with RWF_NOWAIT start readahead.

#include <cstdint>
#include <optional>

namespace ringload::inline v0 {

enum class residency : std::uint8_t {
  cold,  // None of the values below applies.
  // At least 90 % of the pages are in the page cache, and no page is dirty. A long range is also
  // `cached` if both of its ends are cached and clean. Copying from the page cache is faster than
  // reading from the drive.
  cached,
  // The range has pages that are not yet written to the drive. A direct read would first write
  // these pages.
  dirty,
  unknown,  // The kernel has no cachestat (Linux before 6.5), or the file has another owner.
};

struct page_counts {
  std::uint64_t pages = 0;  // Number of pages that are completely or partly in the range.
  std::uint64_t cached = 0;
  std::uint64_t dirty = 0;  // Includes pages that are being written to the drive.
};

// Returns an empty optional if cachestat fails. See residency::unknown.
std::optional<page_counts> count_pages(int fd, std::uint64_t offset, std::uint64_t bytes) noexcept;

// A call takes 0.1 us for a cold range. For a cached range, counting takes 1 us for each MiB.
// Copying a MiB takes 50 times longer. In a range of more than 256 KiB, the first and the last 64
// KiB are counted first. If both ends are cached and clean, the result is residency::cached. The
// bytes between the ends are then nearly always cached too, because files are usually read and
// evicted in order. A buffered read fetches the bytes that are not cached. If an end is not cached
// or not clean, the whole range is counted.
residency residency_of(int fd, std::uint64_t offset, std::uint64_t bytes) noexcept;

}  // namespace ringload::inline v0
