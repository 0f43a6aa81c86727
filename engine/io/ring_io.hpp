// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "io/io_queue.hpp"
#include "io/ring/ring.hpp"

namespace ringload::inline v0 {

class ring_io final : public io_queue {
 public:
  explicit ring_io(ring& io_ring) noexcept : ring_(io_ring) {}

  void start(operation& op) override;
  bool populates() const noexcept override { return false; }

 private:
  ring& ring_;
};

}  // namespace ringload::inline v0
