// SPDX-License-Identifier: Apache-2.0
#pragma once

// Files whose tensors are aligned, as most writers write them.

#include <cstddef>
#include <vector>

#include "support/made_checkpoint.hpp"

namespace ringload::testing {

// Adds spaces to the header, so that the first tensor begins at a multiple of 8.
inline std::size_t spaces_to_align(const std::vector<made_tensor>& tensors) {
  std::size_t header_bytes = checkpoint_text(tensors).size();
  for (const made_tensor& t : tensors) header_bytes -= t.bytes;
  return (8 - header_bytes % 8) % 8;
}

}  // namespace ringload::testing
