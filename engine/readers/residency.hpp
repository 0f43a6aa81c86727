// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the page cache has of a file, asked of `cachestat` alone: `mincore` says "everything" of
// files that belong to others, and a read with RWF_NOWAIT starts a readahead where it finds
// nothing.

#include <cstdint>
#include <optional>

namespace ringload::inline v0 {

enum class residency : std::uint8_t {
  cold,     // To be read from the drive.
  cached,   // At least nine tenths are in the cache: a copy is faster than the drive.
  dirty,    // Not yet on the drive. A direct read would first write it back.
  unknown,  // The kernel does not say: before Linux 6.5, or the file belongs to somebody else.
};

struct page_counts {
  std::uint64_t pages = 0;  // That the range touches.
  std::uint64_t cached = 0;
  std::uint64_t dirty = 0;  // Or on their way to the drive.
};

// Empty where the kernel does not say.
std::optional<page_counts> cached_pages(int fd, std::uint64_t offset, std::uint64_t bytes) noexcept;

// Costs 0.1 us for a cold range, about 1 us for each cached MiB.
residency residency_of(int fd, std::uint64_t offset, std::uint64_t bytes) noexcept;

}  // namespace ringload::inline v0
