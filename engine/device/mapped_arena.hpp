// SPDX-License-Identifier: Apache-2.0
#pragma once

// An arena (memory for tensors) that is a mapped file. Its tensors need no read.

#include <utility>

#include "base/file_mapping.hpp"
#include "device/backend.hpp"

namespace ringload::inline v0 {

class mapped_arena final : public arena {
 public:
  mapped_arena(file_mapping memory, bool read_only) noexcept
      : memory_(std::move(memory)), read_only_(read_only) {}

  std::byte* data() const noexcept override { return memory_.data(); }
  bool was_kept() const noexcept override { return false; }
  // Reads do not write to this memory, so its pages need not be populated.
  bool populated() const noexcept override { return true; }
  bool read_only() const noexcept override { return read_only_; }

 private:
  const file_mapping memory_;
  const bool read_only_;
};

}  // namespace ringload::inline v0
