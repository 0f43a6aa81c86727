// SPDX-License-Identifier: Apache-2.0
#include "archive/block_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/checked.hpp"
#include "formats/printable.hpp"

namespace ringload::inline v0 {

namespace {

// What direct writes are multiples of, in memory and in the file: no drive asks for more.
constexpr std::uint64_t direct_unit = 4096;

// Allocated at once. Direct writes to what is allocated, and within the file's size, do not wait
// for each other.
constexpr std::uint64_t allocated_at_once = std::uint64_t{256} << 20;

// 0, or errno.
int write_all(int fd, std::span<const std::byte> bytes, std::uint64_t offset) noexcept {
  while (!bytes.empty()) {
    const ::ssize_t n = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<::off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    if (n == 0) return EIO;
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
  return 0;
}

}  // namespace

result<std::unique_ptr<block_file>> block_file::make(int fd, std::string path,
                                                     std::uint64_t begin) {
  std::unique_ptr<block_file> made(new block_file(fd, std::move(path)));
  auto memory = mapping::make(block_bytes * blocks, page_kind::transparent);
  if (!memory) return memory.error();
  made->memory_ = std::move(*memory);
  const std::string again = "/proc/self/fd/" + std::to_string(fd);
  made->direct_ = unique_fd(::open(again.c_str(), O_WRONLY | O_DIRECT | O_CLOEXEC));
  if (auto good = made->take_up(begin); !good) return good.error();
  return made;
}

block_file::~block_file() { writers_.join(); }

fault block_file::failure(int code) const { return {system_code(code), printable_path(path_), ""}; }

// The first block begins where direct writes may, so it holds what the file has before `begin`.
result<void> block_file::take_up(std::uint64_t begin) {
  block_offset_ = round_down(begin, direct_unit);
  allocated_ = begin;
  const auto before = static_cast<std::size_t>(begin - block_offset_);
  while (filled_ < before) {
    const ::ssize_t n = ::pread(fd_, memory_.data() + filled_, before - filled_,
                                static_cast<::off_t>(block_offset_ + filled_));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return failure(n < 0 ? errno : EIO);
    filled_ += static_cast<std::size_t>(n);
  }
  return {};
}

// 0, or errno. In a thread of writers_.
int block_file::write_block(std::span<const std::byte> bytes, std::uint64_t offset) {
  bool direct = direct_ && bytes.size() % direct_unit == 0;
  if (direct) {
    const std::lock_guard lock(mutex_);
    direct = direct_works_;
  }
  if (!direct) return write_all(fd_, bytes, offset);
  const int failed = write_all(direct_.get(), bytes, offset);
  const std::lock_guard lock(mutex_);
  if (failed == 0) bytes_direct_ += bytes.size();
  if (failed != EINVAL) return failed;
  direct_works_ = false;
  return write_all(fd_, bytes, offset);
}

void block_file::write(std::size_t block, std::uint64_t offset, std::size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    in_flight_[block] = true;
  }
  boost::asio::post(writers_.get_executor(), [this, block, offset, bytes] {
    const int failed = write_block(std::span(memory_.data() + block * block_bytes, bytes), offset);
    const std::lock_guard lock(mutex_);
    in_flight_[block] = false;
    if (error_ == 0) error_ = failed;
    changed_.notify_one();
  });
}

// Whether the file system could; errno says why not.
bool block_file::allocate(std::uint64_t end) {
  if (end <= allocated_) return true;
  const auto from = static_cast<::off_t>(allocated_);
  if (::fallocate(fd_, 0, from, static_cast<::off_t>(end - allocated_)) != 0) return false;
  allocated_ = end;
  return true;
}

result<void> block_file::reserve(std::uint64_t end) {
  if (allocate(end)) return {};
  if (errno == ENOSPC || errno == EDQUOT || errno == EFBIG) return failure(errno);
  return {};
}

result<void> block_file::next_block() {
  // Where it cannot be done, the write that finds no room says so.
  if (end() > allocated_) allocate(end() + allocated_at_once);
  write(block_, block_offset_, filled_);
  block_offset_ += filled_;
  filled_ = 0;
  block_ = (block_ + 1) % blocks;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !in_flight_[block_]; });
  if (error_ != 0) return failure(error_);
  return {};
}

result<void> block_file::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t step = std::min(bytes.size(), block_bytes - filled_);
    std::memcpy(memory_.data() + block_ * block_bytes + filled_, bytes.data(), step);
    filled_ += step;
    bytes = bytes.subspan(step);
    if (filled_ < block_bytes) continue;
    if (auto good = next_block(); !good) return good.error();
  }
  return {};
}

result<void> block_file::pad_to(std::uint64_t offset) {
  while (end() < offset) {
    const auto step =
        static_cast<std::size_t>(std::min<std::uint64_t>(offset - end(), block_bytes - filled_));
    std::memset(memory_.data() + block_ * block_bytes + filled_, 0, step);
    filled_ += step;
    if (filled_ < block_bytes) continue;
    if (auto good = next_block(); !good) return good.error();
  }
  return {};
}

result<void> block_file::finish() {
  if (filled_ > 0) {
    // Whole units go directly; what is left beyond them may not.
    const auto whole = static_cast<std::size_t>(round_down<std::uint64_t>(filled_, direct_unit));
    if (whole > 0) write(block_, block_offset_, whole);
    const std::span rest(memory_.data() + block_ * block_bytes + whole, filled_ - whole);
    if (const int failed = write_all(fd_, rest, block_offset_ + whole); failed != 0) {
      return failure(failed);
    }
  }
  if (auto good = wait_for_all(); !good) return good.error();
  if (allocated_ > end() && ::ftruncate(fd_, static_cast<::off_t>(end())) != 0) {
    return failure(errno);
  }
  return {};
}

result<void> block_file::wait_for_all() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return std::ranges::find(in_flight_, true) == in_flight_.end(); });
  if (error_ != 0) return failure(error_);
  return {};
}

result<void> block_file::overwrite(std::uint64_t offset, std::span<const std::byte> bytes) {
  if (auto good = wait_for_all(); !good) return good.error();
  // What lies in the current block is written with it.
  const std::uint64_t here = std::min(offset + bytes.size(), std::max(offset, block_offset_));
  const auto before = static_cast<std::size_t>(here - offset);
  if (const int failed = write_all(fd_, bytes.first(before), offset); failed != 0) {
    return failure(failed);
  }
  const std::span<const std::byte> rest = bytes.subspan(before);
  if (rest.empty()) return {};
  std::memcpy(memory_.data() + block_ * block_bytes + (here - block_offset_), rest.data(),
              rest.size());
  return {};
}

}  // namespace ringload::inline v0
