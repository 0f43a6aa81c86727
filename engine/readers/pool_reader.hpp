// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reads with a pool of threads that call pread: everything where io_uring is refused, else what is
// in the page cache, whose copying would block the engine thread.

#include <boost/asio/io_context.hpp>

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
  boost::asio::io_context& loop_;
  threads& threads_;
};

}  // namespace ringload::inline v0
