// SPDX-License-Identifier: Apache-2.0
#pragma once

// How much of anonymous memory is present, according to the kernel.

#include <sys/mman.h>

#include <cstddef>
#include <span>
#include <stdexcept>
#include <vector>

namespace ringload::testing {

// The memory must begin at a page of 4,096 bytes.
inline std::size_t resident_pages(std::span<std::byte> memory) {
  std::vector<unsigned char> pages((memory.size() + 4095) / 4096);
  if (::mincore(memory.data(), memory.size(), pages.data()) != 0) {
    throw std::runtime_error("mincore fails");
  }
  std::size_t count = 0;
  for (const unsigned char page : pages) count += page & 1U;
  return count;
}

// MADV_POPULATE_WRITE exists since Linux 5.14.
inline bool can_populate() noexcept {
  void* page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return false;
  constexpr int populate_write = 23;
  const bool can = ::madvise(page, 4096, populate_write) == 0;
  ::munmap(page, 4096);
  return can;
}

}  // namespace ringload::testing
