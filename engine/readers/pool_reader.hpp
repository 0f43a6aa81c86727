// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reads with a pool of threads that call pread: everything where io_uring is refused, else what is
// in the page cache, whose copying would block the engine thread. What does not come out of a file
// by pread, but by a byte_supply, it brings as well.
//
// Copying from the page cache, 4 MiB take 0.3 ms, and to wake the engine thread for each of them
// costs its processor a twentieth of that. So the ends of a few reads are told together, as long as
// more reads wait for a thread; whoever awaits one is told at once.

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <mutex>

#include "readers/reader.hpp"
#include "readers/threads.hpp"

namespace ringload::inline v0 {

class pool_reader final : public reader {
 public:
  // Both outlive the reader and its reads.
  pool_reader(boost::asio::io_context& loop, threads& by) noexcept : loop_(loop), threads_(by) {}

  void start(operation& op) override;
  bool populates() const noexcept override { return true; }

 private:
  static constexpr std::uint32_t told_together_max = 4;

  void end(operation& op, int result) noexcept;
  void tell();

  boost::asio::io_context& loop_;
  threads& threads_;
  std::atomic<std::uint32_t> waiting_ = 0;  // For a thread.

  std::mutex mutex_;
  // Guarded by the mutex: those that have ended and were not told, in that order.
  operation* first_ended_ = nullptr;
  operation* last_ended_ = nullptr;
  std::uint32_t ended_ = 0;
};

}  // namespace ringload::inline v0
