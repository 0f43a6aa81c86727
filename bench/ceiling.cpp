// SPDX-License-Identifier: Apache-2.0
#include "ceiling.hpp"

#include <fcntl.h>
#include <liburing.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <vector>

#include "core/mapping.hpp"
#include "core/unique_fd.hpp"

namespace ringload::bench {

namespace {

using clock = std::chrono::steady_clock;

constexpr std::uint64_t page_bytes = 4096;
constexpr std::uint64_t pread_bytes = std::uint64_t{2} << 20;
constexpr int tries_max = 20;

[[noreturn]] void fail(int error_number, const std::string& what) {
  throw std::system_error(error_number, std::generic_category(), what);
}

unique_fd open(const std::string& path, int flags) {
  unique_fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags));
  if (!fd) fail(errno, path);
  return fd;
}

std::uint64_t size_of(int fd) {
  struct ::stat status = {};
  if (::fstat(fd, &status) != 0) fail(errno, "fstat");
  return static_cast<std::uint64_t>(status.st_size);
}

double seconds_since(clock::time_point begin) {
  return std::chrono::duration<double>(clock::now() - begin).count();
}

}  // namespace

double read_direct(const std::string& path, std::span<std::byte> into, direct_shape shape) {
  const unique_fd fd = open(path, O_DIRECT);
  const std::uint64_t bytes = size_of(fd.get());
  ::io_uring ring = {};
  if (const int failed = ::io_uring_queue_init(shape.depth, &ring, 0); failed < 0) {
    fail(-failed, "io_uring_queue_init");
  }
  const clock::time_point begin = clock::now();
  std::uint64_t asked = 0;
  std::uint64_t arrived = 0;
  unsigned in_flight = 0;
  int failed = 0;
  while (in_flight > 0 || (asked < bytes && failed == 0)) {
    while (asked < bytes && in_flight < shape.depth && failed == 0) {
      ::io_uring_sqe* sqe = ::io_uring_get_sqe(&ring);
      ::io_uring_prep_read(sqe, fd.get(), into.data() + asked, shape.block_bytes, asked);
      asked += shape.block_bytes;
      ++in_flight;
    }
    ::io_uring_submit_and_wait(&ring, 1);
    ::io_uring_cqe* cqe = nullptr;
    while (::io_uring_peek_cqe(&ring, &cqe) == 0) {
      if (cqe->res < 0) failed = -cqe->res;
      if (cqe->res > 0) arrived += static_cast<unsigned>(cqe->res);
      ::io_uring_cqe_seen(&ring, cqe);
      --in_flight;
    }
  }
  const double took = seconds_since(begin);
  ::io_uring_queue_exit(&ring);
  if (failed != 0) fail(failed, path);
  if (arrived != bytes) throw std::runtime_error(path + ": a direct read came back short");
  return took;
}

double read_buffered(const std::string& path, std::span<std::byte> into, unsigned threads,
                     bool fresh) {
  const unique_fd fd = open(path, 0);
  const std::uint64_t bytes = size_of(fd.get());
  std::atomic<std::uint64_t> next = 0;
  std::atomic<std::uint64_t> arrived = 0;
  const clock::time_point begin = clock::now();
  std::vector<std::thread> team;
  for (unsigned i = 0; i < threads; ++i) {
    team.emplace_back([&] {
      for (;;) {
        const std::uint64_t at = next.fetch_add(pread_bytes);
        if (at >= bytes) return;
        if (fresh) populate(into.subspan(at, pread_bytes));
        const ::ssize_t got = ::pread(fd.get(), into.data() + at, std::min(pread_bytes, bytes - at),
                                      static_cast<::off_t>(at));
        if (got > 0) arrived += static_cast<std::uint64_t>(got);
      }
    });
  }
  for (std::thread& one : team) one.join();
  const double took = seconds_since(begin);
  if (arrived != bytes) throw std::runtime_error(path + ": a buffered read came back short");
  return took;
}

double cached_share(const std::string& path) {
  const unique_fd fd = open(path, 0);
  const std::uint64_t bytes = size_of(fd.get());
  if (bytes == 0) return 0;
  void* at = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (at == MAP_FAILED) fail(errno, path);
  std::vector<unsigned char> pages((bytes + page_bytes - 1) / page_bytes);
  const int refused = ::mincore(at, bytes, pages.data());
  ::munmap(at, bytes);
  if (refused != 0) fail(errno, path);
  const auto cached =
      std::count_if(pages.begin(), pages.end(), [](auto p) { return (p & 1) != 0; });
  return static_cast<double>(cached) / static_cast<double>(pages.size());
}

void make_cold(const std::string& path) {
  const unique_fd fd = open(path, 0);
  for (int i = 0; i < tries_max; ++i) {
    // Dirty pages do not go before they are on the drive.
    if (::fdatasync(fd.get()) != 0) fail(errno, path);
    ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
    if (cached_share(path) == 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  throw std::runtime_error(path + ": the page cache keeps it");
}

void make_warm(const std::string& path) {
  const unique_fd fd = open(path, 0);
  std::vector<std::byte> sink(pread_bytes);
  for (int i = 0; i < tries_max; ++i) {
    if (cached_share(path) >= 0.999) return;
    ::off_t at = 0;
    for (::ssize_t got = 1; got > 0; at += got)
      got = ::pread(fd.get(), sink.data(), sink.size(), at);
  }
  throw std::runtime_error(path + ": the page cache does not keep it");
}

}  // namespace ringload::bench
