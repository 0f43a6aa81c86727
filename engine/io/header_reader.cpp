// SPDX-License-Identifier: Apache-2.0

#include "io/header_reader.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "base/catch_as_fault.hpp"
#include "base/file_io.hpp"
#include "base/io_unit.hpp"
#include "base/retry_allocation.hpp"
#include "io/late_read.hpp"

namespace ringload::inline v0 {

namespace {

using clock = std::chrono::steady_clock;
using seconds = std::chrono::duration<double>;

constexpr std::uint32_t threads_max = 8;
// The time after which a read is late, until a read of the mount has been measured.
constexpr std::chrono::milliseconds late_after_unmeasured{250};

struct free_aligned {
  void operator()(std::byte* memory) const noexcept {
    ::operator delete[](memory, std::align_val_t(block_bytes));
  }
};
using aligned_bytes = std::unique_ptr<std::byte[], free_aligned>;

aligned_bytes make_aligned(std::size_t bytes) {
  return aligned_bytes(
      static_cast<std::byte*>(::operator new[](bytes, std::align_val_t(block_bytes))));
}

// Returns the number of bytes read. A direct read that ends within a block cannot be resumed.
result<std::size_t> read_blocks(int fd, std::uint64_t offset, std::span<std::byte> into) {
  std::size_t position = 0;
  while (position < into.size()) {
    const auto left = into.subspan(position);
    const ::ssize_t got = uninterrupted([&] {
      return ::pread(fd, left.data(), left.size(), static_cast<::off_t>(offset + position));
    });
    if (got < 0) return fault{system_code(errno), {}};
    position += static_cast<std::size_t>(got);
    if (got == 0 || position % block_bytes != 0) break;
  }
  return position;
}

}  // namespace

// A read and, if the read is late, a second read of the same bytes. The threads and the caller own
// the race together.
struct header_reader::race {
  struct attempt {
    aligned_bytes memory;
    std::optional<result<std::size_t>> outcome;
    bool started = false;
    bool is_running() const noexcept { return started && !outcome; }
  };

  // Constant after the first start(). The range consists of whole blocks, because the reads are
  // direct.
  unique_fd fd;
  std::uint64_t offset = 0;
  std::size_t bytes = 0;

  std::mutex mutex;
  std::condition_variable changed;
  std::array<attempt, 2> attempts;  // Guarded by the mutex.

  // Returns the attempt whose result counts. Returns null if a read may still succeed.
  const attempt* decided() const noexcept {
    for (const attempt& each : attempts) {
      if (each.outcome && *each.outcome) return &each;
    }
    const bool is_running = attempts[0].is_running() || attempts[1].is_running();
    return is_running ? nullptr : &attempts[0];
  }
};

result<std::size_t> header_reader::read(int fd, ::dev_t device, std::uint64_t offset,
                                        std::span<std::byte> into, second_read_counts& counts) {
  const auto reads = std::make_shared<race>();
  reads->fd = unique_fd(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!reads->fd) return fault{system_code(errno), {}};
  if (!take_threads()) return fault{system_code(EAGAIN), {}};
  reads->offset = offset / block_bytes * block_bytes;
  const std::uint64_t end = (offset + into.size() + block_bytes - 1) / block_bytes * block_bytes;
  reads->bytes = static_cast<std::size_t>(end - reads->offset);
  const clock::time_point begin = clock::now();
  start(reads, 0);
  const auto late_at = begin + time_until_late(device);
  std::unique_lock lock(reads->mutex);
  const auto is_decided = [&] { return reads->decided() != nullptr; };
  if (!reads->changed.wait_until(lock, late_at, is_decided)) {
    lock.unlock();
    if (take_second_thread()) {
      ++counts.issued;
      start(reads, 1);
    }
    lock.lock();
    reads->changed.wait(lock, is_decided);
  }
  const race::attempt& winner = *reads->decided();
  if (&winner == &reads->attempts[1]) {
    ++counts.won;
  } else if (*winner.outcome) {
    const std::lock_guard measured(mutex_);
    seconds& longest = longest_[device];
    longest = std::max(longest, seconds(clock::now() - begin));
  }
  if (!*winner.outcome) return winner.outcome->error();
  const auto skipped = static_cast<std::size_t>(offset - reads->offset);
  const std::size_t arrived = **winner.outcome > skipped ? **winner.outcome - skipped : 0;
  const std::size_t used = std::min(arrived, into.size());
  std::memcpy(into.data(), winner.memory.get() + skipped, used);
  return used;
}

unique_fd header_reader::open_direct(int fd) {
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  return unique_fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT | O_NOCTTY));
}

// Reserves a thread for the first read. Returns false if the reader is closed, if the threads
// cannot be started, or if no further thread is free now for a second read. Starts the threads at
// the first call.
bool header_reader::take_threads() {
  const std::lock_guard lock(mutex_);
  if (is_closed_ || busy_ + 2 > threads_max) return false;
  if (!threads_) {
    const auto started = catch_as_fault([this]() -> result<void> {
      threads_.emplace(threads_max);
      thread_count_ = threads_max;
      return {};
    });
    if (!started) return false;
  }
  ++busy_;
  return true;
}

// Reserves a thread for a second read. Returns false if the reader is closed, or if other reads
// have taken all threads. A second read without a free thread would wait behind reads that may not
// end.
bool header_reader::take_second_thread() {
  const std::lock_guard lock(mutex_);
  if (is_closed_ || busy_ >= threads_max) return false;
  ++busy_;
  return true;
}

void header_reader::start(const std::shared_ptr<race>& reads, std::size_t number) {
  const auto work = [this, reads, number] {
    race::attempt& own = reads->attempts[number];
    auto outcome = catch_as_fault([&]() -> result<std::size_t> {
      own.memory = make_aligned(reads->bytes);
      return read_blocks(reads->fd.get(), reads->offset, {own.memory.get(), reads->bytes});
    });
    --busy_;
    const std::lock_guard lock(reads->mutex);
    own.outcome.emplace(std::move(outcome));
    reads->changed.notify_all();
  };
  {
    const std::lock_guard lock(reads->mutex);
    reads->attempts[number].started = true;
  }
  retry_allocation([&] { boost::asio::post(threads_->get_executor(), work); });
}

clock::duration header_reader::time_until_late(::dev_t device) const {
  const std::lock_guard lock(mutex_);
  const auto found = longest_.find(device);
  if (found == longest_.end()) return late_after_unmeasured;
  return late_after(found->second);
}

void header_reader::join() {
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
  }
  // The mutex is not held, because reads in progress lock the mutex at their end.
  if (threads_) threads_->join();
  thread_count_ = 0;
}

}  // namespace ringload::inline v0
