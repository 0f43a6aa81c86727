// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "io/ring/ring.hpp"
#include "io/writers/block_writer.hpp"

namespace ringload::inline v0 {

class ring_writer final : public block_writer {
 public:
  explicit ring_writer(ring& io_ring) noexcept : ring_(io_ring) {}

  void start(operation& op) override;

 private:
  ring& ring_;
};

}  // namespace ringload::inline v0
