// SPDX-License-Identifier: Apache-2.0

#include "base/file_mapping.hpp"

#include <sys/mman.h>

#include <cerrno>

#include "base/checked.hpp"
#include "base/mapping.hpp"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

namespace ringload::inline v0 {

file_mapping::~file_mapping() {
  if (!memory_.empty()) ::munmap(memory_.data(), memory_.size());
}

result<file_mapping> file_mapping::make(int fd, std::uint64_t offset, std::uint64_t bytes,
                                        bool writable) {
  const std::uint64_t begin = round_down(offset, system_page_bytes());
  const std::uint64_t length = offset - begin + bytes;
  // With MAP_NORESERVE, the kernel reserves no memory: a page of a private mapping needs memory
  // only after a write.
  const int access = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  const int flags = writable ? MAP_PRIVATE | MAP_NORESERVE : MAP_SHARED;
  void* const address = ::mmap(nullptr, length, access, flags, fd, static_cast<::off_t>(begin));
  if (address == MAP_FAILED) {
    const auto failed = system_code(errno);
    return fault{failed, "", "cannot map " + grouped(bytes) + " bytes: " + failed.message()};
  }
  file_mapping mapped;
  mapped.memory_ = {static_cast<std::byte*>(address), length};
  mapped.data_ = mapped.memory_.data() + (offset - begin);
  return mapped;
}

boost::system::error_code present(std::span<const std::byte> memory) noexcept {
  if (memory.empty()) return {};
  const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
  const std::uintptr_t begin = round_down<std::uintptr_t>(address, system_page_bytes());
  const std::size_t bytes = address - begin + memory.size();
  void* const start = reinterpret_cast<void*>(begin);
  // Starts readahead of the whole range, because MADV_POPULATE_READ reads one page after another.
  ::madvise(start, bytes, MADV_WILLNEED);
  while (::madvise(start, bytes, MADV_POPULATE_READ) != 0) {
    if (errno == EINTR || errno == EAGAIN) continue;
    if (errno == EINVAL) return {};  // The kernel is older than Linux 5.14.
    return system_code(errno);
  }
  return {};
}

}  // namespace ringload::inline v0
