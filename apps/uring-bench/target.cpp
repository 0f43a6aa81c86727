// SPDX-License-Identifier: Apache-2.0
#include "target.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <thread>
#include <utility>

#include "failure.hpp"
#include "interrupts.hpp"
#include "io/residency.hpp"

namespace ringload::bench {

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t warming_bytes = std::uint64_t{2} << 20;
constexpr int state_tries_max = 20;
// The minimum share for a warm file, because the kernel may have reclaimed a page.
constexpr double warm_share = 0.997;

// Returns the names of the regular files in a folder, sorted. Sub-folders are not read.
std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code failed;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
    if (fs::is_regular_file(at->path(), failed) && fs::file_size(at->path(), failed) > 0) {
      paths.push_back(at->path().string());
    }
    failed.clear();
  }
  if (failed) fail(failed.value(), folder);
  std::sort(paths.begin(), paths.end());
  return paths;
}

void read_through(const target::file& one) {
  std::vector<std::byte> sink(warming_bytes);
  // Opens the file again, because `one.fd` may have O_DIRECT, which bypasses the page cache.
  const unique_fd fd(::open(one.path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) fail(errno, one.path);
  ::off_t at = 0;
  for (::ssize_t got = 1; got > 0; at += got) {
    tool::throw_if_interrupted();
    got = ::pread(fd.get(), sink.data(), sink.size(), at);
    if (got < 0) fail(errno, one.path);
  }
}

}  // namespace

bool has_state(cache_state state, double share, bool is_block_device) noexcept {
  switch (state) {
    case cache_state::cold: return share <= (is_block_device ? cold_share_max : 0);
    case cache_state::warm: return share >= warm_share;
    case cache_state::as_is: break;
  }
  return true;
}

std::string percent_text(double share) { return fmt::format("{:.4g} %", share * 100); }

target::target(const std::string& path, route by) : path_(path) {
  struct ::stat status = {};
  if (::stat(path.c_str(), &status) != 0) fail(errno, path);
  if (S_ISDIR(status.st_mode)) {
    for (const std::string& one : files_in(path)) add(one, by);
    if (files_.empty()) fail(path, "a folder without a file to read");
  } else {
    add(path, by);
  }
  close_list();
}

target::target(std::string name, const std::vector<std::string>& files, route by)
    : path_(std::move(name)) {
  for (const std::string& one : files) add(one, by);
  close_list();
}

void target::close_list() {
  for (const file& one : files_) bytes_ += one.bytes;
  struct ::stat status = {};
  if (::fstat(files_.front().fd.get(), &status) != 0) fail(errno, path_);
  is_block_device_ = S_ISBLK(status.st_mode);
  drive_ = is_block_device_ ? status.st_rdev : status.st_dev;
}

void target::add(const std::string& path, route by) {
  // Without O_NONBLOCK, opening a FIFO would wait for a writer.
  const int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | (by == route::direct ? O_DIRECT : 0);
  file one{path, unique_fd(::open(path.c_str(), flags)), 0};
  if (!one.fd && errno == EINVAL && (flags & O_DIRECT) != 0) {
    fail(path, "this file system gives no direct reads; try --route buffered");
  }
  if (!one.fd) fail(errno, path);
  struct ::stat status = {};
  if (::fstat(one.fd.get(), &status) != 0) fail(errno, path);
  if (S_ISBLK(status.st_mode)) {
    if (::ioctl(one.fd.get(), BLKGETSIZE64, &one.bytes) != 0) fail(errno, path);
  } else if (S_ISREG(status.st_mode)) {
    one.bytes = static_cast<std::uint64_t>(status.st_size);
  } else {
    fail(path, "neither a file, nor a folder, nor a block device");
  }
  if (one.bytes == 0) fail(path, "there is not one byte in it to read");
  files_.push_back(std::move(one));
}

std::optional<double> target::cached_share() const {
  std::uint64_t pages = 0;
  std::uint64_t cached = 0;
  for (const file& one : files_) {
    const auto counts = count_pages(one.fd.get(), 0, one.bytes);
    if (!counts) return std::nullopt;
    pages += counts->pages;
    cached += counts->cached;
  }
  return static_cast<double>(cached) / static_cast<double>(pages);
}

std::optional<double> target::establish(cache_state state) const {
  std::optional<double> share = cached_share();
  if (state == cache_state::as_is) return share;
  const std::string state_name(name(state));
  for (int i = 0; i < state_tries_max; ++i) {
    tool::throw_if_interrupted();
    share = cached_share();
    if (!share) {
      fail(path_, "not known to be " + state_name +
                      ": cachestat is refused (a kernel before 6.5, or a file that is not yours); "
                      "--state as-is measures without the claim");
    }
    if (has_state(state, *share, is_block_device_)) return share;
    for (const file& one : files_) {
      if (state == cache_state::warm) {
        read_through(one);
      } else {
        // Dirty pages cannot be dropped before they are written to the drive.
        ::fdatasync(one.fd.get());
        ::posix_fadvise(one.fd.get(), 0, 0, POSIX_FADV_DONTNEED);
      }
    }
    if (i > 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  fail(path_,
       "cannot be made " + state_name + ": the page cache has " + percent_text(*share) + " of it");
}

}  // namespace ringload::bench
