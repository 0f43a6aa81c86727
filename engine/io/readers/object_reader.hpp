// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reads objects of a store. The store uses its own threads; completions run in the engine thread.

#include <boost/asio/io_context.hpp>

#include "io/readers/reader.hpp"

namespace ringload::inline v0 {

class object_reader final : public reader {
 public:
  // `loop` must outlive the reader and its reads.
  explicit object_reader(boost::asio::io_context& loop) noexcept : loop_(loop) {}

  void start(operation& op) override;
  bool populates() const noexcept override { return false; }

 private:
  boost::asio::io_context& loop_;
};

}  // namespace ringload::inline v0
