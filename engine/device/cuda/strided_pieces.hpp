// SPDX-License-Identifier: Apache-2.0
#pragma once

// Builds the kernel's work items for the strided and dequantised copies of one slot.

#include <cstddef>
#include <span>
#include <vector>

#include "device/backend.hpp"
#include "device/cuda/kernels.hpp"

namespace ringload::inline v0::cuda {

// Adds the pieces of `copies`, which are copies of `op` with maps or quantised blocks. The pieces
// address the slot by its host address. Throws std::bad_alloc.
void add_boxes(const copy_operation& op, std::span<const copy_op> copies,
               std::vector<box_piece>& pieces);

}  // namespace ringload::inline v0::cuda
