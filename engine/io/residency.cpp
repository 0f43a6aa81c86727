// SPDX-License-Identifier: Apache-2.0

#include "io/residency.hpp"

#include <sys/syscall.h>
#include <unistd.h>

namespace ringload::inline v0 {

namespace {

// Number of the system call cachestat (Linux 6.5). The headers of Debian 12 lack this number.
constexpr long cachestat_call = 451;

struct cachestat_range {
  std::uint64_t offset;
  std::uint64_t bytes;
};

struct cachestat_pages {
  std::uint64_t cached;
  std::uint64_t dirty;
  std::uint64_t writeback;
  std::uint64_t evicted;
  std::uint64_t recently_evicted;
};

constexpr std::uint64_t sampled_bytes = 64 * 1024;

bool clean_and_cached(int fd, std::uint64_t offset, std::uint64_t bytes) noexcept {
  const auto counts = count_pages(fd, offset, bytes);
  return counts && counts->dirty == 0 && counts->cached == counts->pages;
}

}  // namespace

std::optional<page_counts> count_pages(int fd, std::uint64_t offset, std::uint64_t bytes) noexcept {
  constexpr std::uint64_t page_bytes = 4096;
  cachestat_range range = {offset, bytes};
  cachestat_pages pages = {};
  if (::syscall(cachestat_call, fd, &range, &pages, 0) != 0) return std::nullopt;
  const std::uint64_t first_page = offset / page_bytes;
  const std::uint64_t last_page = (offset + bytes + page_bytes - 1) / page_bytes;
  return page_counts{last_page - first_page, pages.cached, pages.dirty + pages.writeback};
}

residency residency_of(int fd, std::uint64_t offset, std::uint64_t bytes) noexcept {
  if (bytes > 4 * sampled_bytes && clean_and_cached(fd, offset, sampled_bytes) &&
      clean_and_cached(fd, offset + bytes - sampled_bytes, sampled_bytes)) {
    return residency::cached;
  }
  const auto counts = count_pages(fd, offset, bytes);
  if (!counts) return residency::unknown;
  if (counts->dirty > 0) return residency::dirty;
  return counts->cached * 10 >= counts->pages * 9 ? residency::cached : residency::cold;
}

}  // namespace ringload::inline v0
