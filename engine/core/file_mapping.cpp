// SPDX-License-Identifier: Apache-2.0
#include "core/file_mapping.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "core/checked.hpp"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

namespace ringload::inline v0 {

namespace {

// 4 KiB, 16 or 64.
std::uint64_t page_bytes() noexcept { return static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)); }

}  // namespace

file_mapping::~file_mapping() {
  if (!memory_.empty()) ::munmap(memory_.data(), memory_.size());
}

result<file_mapping> file_mapping::make(int fd, std::uint64_t offset, std::uint64_t bytes,
                                        bool writable) {
  const std::uint64_t begin = round_down(offset, page_bytes());
  const std::uint64_t length = offset - begin + bytes;
  // Pages that are written to take memory then; until then none is set aside for them.
  const int access = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  const int flags = writable ? MAP_PRIVATE | MAP_NORESERVE : MAP_SHARED;
  void* const at = ::mmap(nullptr, length, access, flags, fd, static_cast<::off_t>(begin));
  if (at == MAP_FAILED) {
    const auto failed = system_code(errno);
    return fault{failed, "", "mapping " + grouped(bytes) + " bytes of it: " + failed.message()};
  }
  file_mapping made;
  made.memory_ = {static_cast<std::byte*>(at), length};
  made.data_ = made.memory_.data() + (offset - begin);
  return made;
}

boost::system::error_code present(std::span<const std::byte> memory) noexcept {
  if (memory.empty()) return {};
  const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
  const std::uintptr_t begin = round_down<std::uintptr_t>(address, page_bytes());
  const std::size_t bytes = address - begin + memory.size();
  void* const at = reinterpret_cast<void*>(begin);
  // All of it is asked for at once: the next call waits for one page after the other.
  ::madvise(at, bytes, MADV_WILLNEED);
  while (::madvise(at, bytes, MADV_POPULATE_READ) != 0) {
    if (errno == EINTR || errno == EAGAIN) continue;
    if (errno == EINVAL) return {};  // An older kernel.
    return system_code(errno);
  }
  return {};
}

}  // namespace ringload::inline v0
