// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reads with a pool of threads that call pread. It reads everything if io_uring is refused;
// otherwise only page cache hits, because copying them would block the engine thread. It also
// serves reads from a byte_supply.
//
// Copying 4 MiB from the page cache takes 0.3 ms, and waking the engine thread for each of them
// costs its CPU a twentieth of that. So the completions of a few reads are posted together while
// more reads wait for a thread. An awaited read completes at once.

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <mutex>

#include "io/readers/reader.hpp"
#include "io/threads.hpp"

namespace ringload::inline v0 {

class pool_reader final : public reader {
 public:
  // `loop` and `pool` must outlive the reader and its reads.
  pool_reader(boost::asio::io_context& loop, threads& pool) noexcept
      : loop_(loop), threads_(pool) {}

  void start(operation& op) override;
  bool populates() const noexcept override { return true; }

 private:
  static constexpr std::uint32_t batch_max = 4;

  void end(operation& op, int result) noexcept;
  void complete_batch();

  boost::asio::io_context& loop_;
  threads& threads_;
  std::atomic<std::uint32_t> waiting_ = 0;  // Reads that wait for a thread.

  std::mutex mutex_;
  // Guarded by the mutex: reads that have ended but are not completed, in that order.
  operation* first_ended_ = nullptr;
  operation* last_ended_ = nullptr;
  std::uint32_t ended_ = 0;
};

}  // namespace ringload::inline v0
