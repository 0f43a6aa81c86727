// SPDX-License-Identifier: Apache-2.0

#include <fcntl.h>
#include <sys/ioctl.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <optional>
#include <string>

#include "base/mapping.hpp"
#include "base/unique_fd.hpp"

namespace ringload::inline v0 {

namespace {

// From linux/fs.h of Linux 6.11. The headers of Debian 12 are older.
struct mapping_query {
  std::uint64_t struct_bytes = sizeof(mapping_query);
  std::uint64_t query_flags = 0;
  std::uint64_t query_address = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t mapping_flags = 0;
  std::uint64_t page_bytes = 0;
  std::uint64_t offset = 0;
  std::uint64_t inode = 0;
  std::uint32_t device_major = 0;
  std::uint32_t device_minor = 0;
  std::uint32_t name_bytes = 0;
  std::uint32_t build_id_bytes = 0;
  std::uint64_t name_address = 0;
  std::uint64_t build_id_address = 0;
};
constexpr unsigned long query_mapping = _IOWR('f', 17, mapping_query);

struct page_region {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t categories = 0;
};

constexpr std::uint64_t is_present = 1 << 3;
constexpr std::uint64_t is_huge = 1 << 6;

struct page_scan {
  std::uint64_t struct_bytes = sizeof(page_scan);
  std::uint64_t flags = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t scan_end = 0;
  std::uint64_t regions = 0;
  std::uint64_t regions_max = 0;
  std::uint64_t pages_max = 0;
  std::uint64_t inverted = 0;
  std::uint64_t required = is_present;
  std::uint64_t required_any = 0;
  std::uint64_t reported = is_present | is_huge;
};
constexpr unsigned long scan_pages = _IOWR('f', 16, page_scan);

struct present_bytes {
  std::uint64_t all = 0;
  std::uint64_t huge = 0;

  page_kind kind() const noexcept {
    return huge > 0 && huge >= all / 2 ? page_kind::transparent : page_kind::small;
  }
};

int open_to_read(const char* path) noexcept { return ::open(path, O_RDONLY | O_CLOEXEC); }

// Returns the size of the pages of the mapping that has this address, or 0 if the query fails, for
// example because the kernel is older than Linux 6.11.
std::uint64_t page_bytes_of(std::uintptr_t address) noexcept {
  const unique_fd maps(open_to_read("/proc/self/maps"));
  mapping_query query;
  query.query_address = address;
  return maps && ::ioctl(maps.get(), query_mapping, &query) == 0 ? query.page_bytes : 0;
}

std::optional<present_bytes> scan(std::uintptr_t begin, std::uintptr_t end) noexcept {
  const unique_fd pages(open_to_read("/proc/self/pagemap"));
  if (!pages) return {};
  std::array<page_region, 64> found;
  present_bytes sum;
  page_scan request;
  request.begin = begin;
  request.end = end;
  request.regions = reinterpret_cast<std::uintptr_t>(found.data());
  request.regions_max = found.size();
  while (request.begin < end) {
    const int count = ::ioctl(pages.get(), scan_pages, &request);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 || request.scan_end <= request.begin) return {};
    for (int i = 0; i < count; ++i) {
      const page_region& region = found[static_cast<std::size_t>(i)];
      sum.all += region.end - region.begin;
      if ((region.categories & is_huge) != 0) sum.huge += region.end - region.begin;
    }
    request.begin = request.scan_end;
  }
  return sum;
}

}  // namespace

page_kind kind_of(std::span<const std::byte> memory) {
  const std::uint64_t page = system_page_bytes();
  const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
  const std::uintptr_t begin = address / page * page;
  const std::uintptr_t end = (address + memory.size() + page - 1) / page * page;
  if (const std::uint64_t page_bytes = page_bytes_of(begin); page_bytes != 0) {
    if (page_bytes == huge_page_bytes) return page_kind::hugetlb;
    if (const auto found = scan(begin, end)) return found->kind();
  }
  return kind_by_smaps(memory);
}

page_kind kind_by_smaps(std::span<const std::byte> memory) {
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.data());
  const std::uintptr_t end = begin + memory.size();
  std::ifstream smaps("/proc/self/smaps");
  present_bytes sum;
  bool inside = false;
  for (std::string line; std::getline(smaps, line);) {
    unsigned long from = 0;
    unsigned long to = 0;
    unsigned long kib = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &from, &to) == 2) {
      inside = from < end && to > begin;
    } else if (!inside) {
      continue;
    } else if (std::sscanf(line.c_str(), "KernelPageSize: %lu kB", &kib) == 1) {
      if (kib * 1024 == huge_page_bytes) return page_kind::hugetlb;
    } else if (std::sscanf(line.c_str(), "Rss: %lu kB", &kib) == 1) {
      sum.all += kib * 1024;
    } else if (std::sscanf(line.c_str(), "AnonHugePages: %lu kB", &kib) == 1 ||
               std::sscanf(line.c_str(), "ShmemPmdMapped: %lu kB", &kib) == 1) {
      sum.huge += kib * 1024;
    }
  }
  return sum.kind();
}

}  // namespace ringload::inline v0
