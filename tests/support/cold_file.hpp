// SPDX-License-Identifier: Apache-2.0
#pragma once

// `make_cold` drops a file from the page cache, so that the automatic route reads the file
// directly. `cached_file` keeps a file in the page cache.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <stdexcept>
#include <thread>
#include <vector>

namespace ringload::testing {

// The number of pages of the file in the page cache. This user must own the file, because `mincore`
// reports every page of other files as cached.
inline std::size_t cached_pages(int fd) {
  struct stat found{};
  if (::fstat(fd, &found) != 0) throw std::runtime_error("cannot read the size of a file");
  const auto bytes = static_cast<std::size_t>(found.st_size);
  if (bytes == 0) return 0;
  void* const mapped = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) throw std::runtime_error("cannot map a file");
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> pages((bytes + page - 1) / page);
  const bool counted = ::mincore(mapped, bytes, pages.data()) == 0;
  ::munmap(mapped, bytes);
  if (!counted) throw std::runtime_error("cannot count the cached pages of a file");
  std::size_t cached = 0;
  for (const unsigned char each : pages) cached += each & 1U;
  return cached;
}

// Syncs the file and drops it from the page cache. A page that the kernel uses at that moment stays
// there, so the file is dropped again until no page is left. A file system in memory keeps its
// pages: after 50 attempts the file is left as it is.
inline void make_cold(int fd) {
  for (int attempt = 0; attempt < 50; ++attempt) {
    if (::fsync(fd) != 0 || ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) != 0) {
      throw std::runtime_error("cannot drop a file from the page cache");
    }
    if (cached_pages(fd) == 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

inline void make_cold(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw std::runtime_error("cannot open " + path.string());
  try {
    make_cold(fd);
  } catch (...) {
    ::close(fd);
    throw;
  }
  ::close(fd);
}

// Reads a file into the page cache and locks its pages there until the destructor. Without a lock,
// the kernel may drop a page at any time, and a kernel with DAMON drops pages although memory is
// free. If the limit of locked memory is too low, the pages are read but not locked.
class cached_file {
 public:
  explicit cached_file(const std::filesystem::path& path) {
    bytes_ = std::filesystem::file_size(path);
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) throw std::runtime_error("cannot open " + path.string());
    memory_ = ::mmap(nullptr, bytes_, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
    ::close(fd);
    if (memory_ == MAP_FAILED) throw std::runtime_error("cannot map " + path.string());
    (void)::mlock(memory_, bytes_);
  }
  ~cached_file() { ::munmap(memory_, bytes_); }
  cached_file(const cached_file&) = delete;
  cached_file& operator=(const cached_file&) = delete;

 private:
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace ringload::testing
