// SPDX-License-Identifier: Apache-2.0
#pragma once

// Writes with a pool of threads that call pwrite. It writes everything if io_uring is refused;
// otherwise only buffered writes, because copying into the page cache would block the engine
// thread.

#include <boost/asio/io_context.hpp>

#include "io/threads.hpp"
#include "io/writers/block_writer.hpp"

namespace ringload::inline v0 {

class pool_writer final : public block_writer {
 public:
  // `loop` and `pool` must outlive the writer and its writes.
  pool_writer(boost::asio::io_context& loop, threads& pool) noexcept
      : loop_(loop), threads_(pool) {}

  void start(operation& op) override;

 private:
  boost::asio::io_context& loop_;
  threads& threads_;
};

}  // namespace ringload::inline v0
