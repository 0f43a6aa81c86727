// SPDX-License-Identifier: Apache-2.0
#pragma once

// Builds the work items of a kernel for the copies of one slot (I/O buffer) that are strided,
// dequantised, or converted at misaligned addresses. Used by `copier` and `upload_rooms`.

#include <cstddef>
#include <span>
#include <vector>

#include "device/backend.hpp"
#include "device/cuda/kernels.hpp"

namespace ringload::inline v0::cuda {

// Adds the pieces of `copies` to `pieces`. Each copy must be a copy of `op` that has a map or
// converts. The pieces have the host address of the slot. Throws std::bad_alloc.
void add_boxes(const copy_operation& op, std::span<const copy_op> copies,
               std::vector<box_piece>& pieces);

}  // namespace ringload::inline v0::cuda
