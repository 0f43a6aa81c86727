// SPDX-License-Identifier: Apache-2.0
#pragma once

// What of a slot goes to its place by strides, or is dequantised: as pieces for the kernel.

#include <cstddef>
#include <span>
#include <vector>

#include "device/backend.hpp"
#include "device/cuda/kernels.hpp"

namespace ringload::inline v0::cuda {

// Adds the pieces of those copies of `op`, which are of maps or of blocks. They read the slot by
// its own address. Throws std::bad_alloc.
void add_boxes(const copy_operation& op, std::span<const copy_op> copies,
               std::vector<box_piece>& pieces);

}  // namespace ringload::inline v0::cuda
