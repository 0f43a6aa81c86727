// SPDX-License-Identifier: Apache-2.0
#pragma once

// Blocking reads of headers on distant mounts (network file systems and FUSE). If a read is late, a
// second read of the same bytes is issued. Threads of this object carry out both reads, so that the
// caller does not wait for the slower read. Reads of tensors have the same mechanism in
// runtime/second_reads.hpp.
//
// Both reads are direct. A second buffered read would wait for the page that the first read has
// locked. On FUSE, the next open() of the file would wait for this page too.

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "base/fault.hpp"
#include "base/unique_fd.hpp"
#include "io/threads.hpp"

namespace ringload::inline v0 {

// Second reads of one load. See load_stats.
struct second_read_counts {
  std::atomic<std::uint64_t> issued = 0;
  std::atomic<std::uint64_t> won = 0;
};

class header_reader {
 public:
  header_reader() = default;
  header_reader(const header_reader&) = delete;
  header_reader& operator=(const header_reader&) = delete;

  // Waits for the reads that are in progress.
  ~header_reader() { join(); }

  // Opens the file of a descriptor for direct reads. Returns an empty descriptor if that fails.
  static unique_fd open_direct(int fd);

  // Returns the number of bytes read. The result can be smaller than `into.size()` if the file ends
  // or if a direct read was short. `fd` must be open for direct reads. `device` is the device
  // number of the file. Fails with EAGAIN if no thread is free. Thread-safe.
  result<std::size_t> read(int fd, ::dev_t device, std::uint64_t offset, std::span<std::byte> into,
                           second_read_counts& counts);

  // Waits for the reads that are in progress. Later calls of read() fail with EAGAIN.
  void join();

  std::uint32_t thread_count() const noexcept { return thread_count_; }

 private:
  struct race;

  bool take_threads();
  bool take_second_thread();
  void start(const std::shared_ptr<race>& reads, std::size_t number);
  std::chrono::steady_clock::duration time_until_late(::dev_t device) const;

  std::atomic<std::uint32_t> thread_count_ = 0;
  std::atomic<std::uint32_t> busy_ = 0;  // Number of reads that run or wait for a thread.
  mutable std::mutex mutex_;
  // Guarded by the mutex.
  bool is_closed_ = false;
  std::optional<threads> threads_;  // Started by the first read.
  // For each mount: the longest time of a first read that no second read has overtaken.
  std::map<::dev_t, std::chrono::duration<double>> longest_;
};

// Passed to the functions that open a checkpoint. If `reader` is null, no read is issued a second
// time.
struct header_reads {
  header_reader* reader = nullptr;
  second_read_counts* counts = nullptr;
};

}  // namespace ringload::inline v0
