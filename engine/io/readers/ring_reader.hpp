// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "io/readers/reader.hpp"
#include "io/ring/ring.hpp"

namespace ringload::inline v0 {

class ring_reader final : public reader {
 public:
  explicit ring_reader(ring& io_ring) noexcept : ring_(io_ring) {}

  void start(operation& op) override;
  bool populates() const noexcept override { return false; }

 private:
  ring& ring_;
};

}  // namespace ringload::inline v0
