// SPDX-License-Identifier: Apache-2.0

#include "base/mapping.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>

#include "base/checked.hpp"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MAP_HUGE_2MB
#define MAP_HUGE_2MB (21 << 26)
#endif

namespace ringload::inline v0 {

namespace {

constexpr std::uint64_t mapping_bytes_max = std::uint64_t{1} << 62;

std::byte* map(std::byte* target, std::uint64_t bytes, int more_flags) noexcept {
  void* address = ::mmap(target, bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | more_flags, -1, 0);
  return address == MAP_FAILED ? nullptr : static_cast<std::byte*>(address);
}

void advise(std::byte* address, std::uint64_t bytes, page_kind kind) noexcept {
  if (kind == page_kind::transparent) ::madvise(address, bytes, MADV_HUGEPAGE);
  if (kind == page_kind::small) ::madvise(address, bytes, MADV_NOHUGEPAGE);
}

fault no_memory(std::uint64_t bytes, const char* memory_name) {
  const auto failed = system_code(errno);
  std::string cause =
      "mapping " + grouped(bytes) + " bytes of " + memory_name + ": " + failed.message();
  if (failed == system_code(ENOMEM) && exceeds_address_space(bytes)) {
    cause += ": the limit of address space is reached (ulimit -v)";
  }
  return {failed, "", std::move(cause)};
}

boost::system::error_code populate_pages(std::uintptr_t begin, std::uintptr_t end) noexcept {
  while (::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_WRITE) != 0) {
    if (errno == EINTR || errno == EAGAIN) continue;
    if (errno == EINVAL) return {};  // Before Linux 5.14, page faults populate the pages.
    return system_code(errno == EFAULT ? ENOMEM : errno);
  }
  return {};
}

}  // namespace

std::uint64_t system_page_bytes() noexcept {
  return static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::string_view name(page_kind kind) noexcept {
  switch (kind) {
    case page_kind::small: return "4k";
    case page_kind::transparent: return "thp";
    case page_kind::hugetlb: return "hugetlb";
  }
  return "4k";
}

mapping& mapping::operator=(mapping&& source) noexcept {
  std::swap(memory_, source.memory_);
  registration_ = source.registration_.exchange(registration_);
  logged_ = std::move(source.logged_);
  return *this;
}

mapping::~mapping() {
  logged_.release();
  if (memory_registration* const registered = registration_) {
    registered->end(memory_);
  } else if (!memory_.empty()) {
    ::munmap(memory_.data(), memory_.size());
  }
}

result<mapping> mapping::make(std::uint64_t bytes, page_kind kind) {
  // No address space can contain more than `mapping_bytes_max`. The check also prevents an overflow
  // in the following code.
  if (bytes > mapping_bytes_max) {
    errno = ENOMEM;
    return no_memory(bytes, "memory");
  }
  if (kind == page_kind::hugetlb) {
    // Uses 2 MiB pages, even if the kernel has another default size.
    const std::uint64_t whole = round_up(bytes, huge_page_bytes);
    std::byte* start = map(nullptr, whole, MAP_HUGETLB | MAP_HUGE_2MB);
    if (!start) return no_memory(whole, "reserved huge pages");
    return mapping({start, whole});
  }
  const std::uint64_t whole = round_up(bytes, system_page_bytes());
  if (bytes < huge_page_bytes) {
    std::byte* start = map(nullptr, whole, 0);
    if (!start) return no_memory(whole, "memory");
    return mapping({start, whole});
  }
  // Maps one additional huge page, then unmaps the bytes before and after the aligned range.
  std::byte* start = map(nullptr, whole + huge_page_bytes, 0);
  if (!start) return no_memory(whole, "memory");
  const auto address = reinterpret_cast<std::uintptr_t>(start);
  const std::uint64_t before = round_up<std::uint64_t>(address, huge_page_bytes) - address;
  if (before > 0) ::munmap(start, before);
  if (before < huge_page_bytes) ::munmap(start + before + whole, huge_page_bytes - before);
  start += before;
  advise(start, whole, kind);
  return mapping({start, whole});
}

boost::system::error_code map_again(std::span<std::byte> memory, page_kind kind) noexcept {
  if (!map(memory.data(), memory.size(), MAP_FIXED)) return system_code(errno);
  advise(memory.data(), memory.size(), kind);
  return {};
}

// When a page fault allocates a huge page, the kernel clears the part at the faulting address last.
// Therefore populate() first populates the last small page of each huge page. The kernel then
// clears the huge page from front to back, which takes a sixth less time than from back to front.
boost::system::error_code populate(std::span<std::byte> memory) noexcept {
  if (memory.empty()) return {};
  const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
  const std::uintptr_t end = round_up<std::uintptr_t>(address + memory.size(), system_page_bytes());
  std::uintptr_t page = round_down<std::uintptr_t>(address, system_page_bytes());
  while (page < end) {
    const std::uintptr_t next =
        std::min(end, round_down<std::uintptr_t>(page, huge_page_bytes) + huge_page_bytes);
    if (auto failed = populate_pages(next - system_page_bytes(), next)) return failed;
    if (auto failed = populate_pages(page, next)) return failed;
    page = next;
  }
  return {};
}

std::uint64_t absent_bytes(std::span<const std::byte> memory) noexcept {
  const auto begin = round_down<std::uintptr_t>(reinterpret_cast<std::uintptr_t>(memory.data()),
                                                system_page_bytes());
  const std::uintptr_t end = reinterpret_cast<std::uintptr_t>(memory.data()) + memory.size();
  std::uint64_t absent = 0;
  for (std::uintptr_t page = begin; page < end; page += huge_page_bytes) {
    const std::uint64_t bytes = std::min<std::uint64_t>(huge_page_bytes, end - page);
    const std::uintptr_t middle = round_down<std::uintptr_t>(page + bytes / 2, system_page_bytes());
    unsigned char present = 0;
    if (::mincore(reinterpret_cast<void*>(middle), 1, &present) != 0) continue;
    if ((present & 1U) == 0) absent += bytes;
  }
  return absent;
}

}  // namespace ringload::inline v0
