// SPDX-License-Identifier: Apache-2.0
#pragma once

// Writes by io_uring.

#include "ring/ring.hpp"
#include "writers/block_writer.hpp"

namespace ringload::inline v0 {

class ring_writer final : public block_writer {
 public:
  explicit ring_writer(ring& with) noexcept : ring_(with) {}

  void start(operation& op) override;

 private:
  ring& ring_;
};

}  // namespace ringload::inline v0
