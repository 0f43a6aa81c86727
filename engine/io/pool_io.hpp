// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reads and writes in a pool of threads that call pread and pwrite. Without io_uring, the pool
// transfers all bytes. With io_uring, the pool carries out only two kinds of transfers: buffered
// writes, and reads of bytes that are in the page cache. Both kinds copy memory, which would block
// the engine thread. If a read has a byte_supply,
// which is a function that produces the bytes, a thread of the pool calls this function.
//
// A copy of 4 MiB from the page cache takes 0.3 ms, and a wake-up of the engine thread takes a
// twentieth of this time. Therefore one wake-up posts up to `batch_max` completions while
// operations wait for a thread. Completions of direct reads, and of reads for which a caller waits,
// are not delayed.

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <mutex>

#include "io/io_queue.hpp"
#include "io/threads.hpp"

namespace ringload::inline v0 {

class pool_io final : public io_queue {
 public:
  // `loop` and `pool` must outlive this object and its operations.
  pool_io(boost::asio::io_context& loop, threads& pool) noexcept : loop_(loop), threads_(pool) {}

  void start(operation& op) override;
  bool populates() const noexcept override { return true; }

 private:
  static constexpr std::uint32_t batch_max = 4;

  void end(operation& op, int result) noexcept;
  void post_other_files(const operation& op) noexcept;
  void post_batch() noexcept;
  void complete_batch();

  boost::asio::io_context& loop_;
  threads& threads_;
  std::atomic<std::uint32_t> waiting_ = 0;  // Number of operations that wait for a thread.

  std::mutex mutex_;
  // FIFO list of ended operations whose completions are not posted yet. Guarded by the mutex.
  io_completion* first_ended_ = nullptr;
  io_completion* last_ended_ = nullptr;
  std::uint32_t ended_count_ = 0;
};

}  // namespace ringload::inline v0
