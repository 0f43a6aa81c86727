// SPDX-License-Identifier: Apache-2.0
#pragma once

// Builds the kernel's work items for one slot (I/O buffer). A copy needs work items if it is
// strided or dequantised, or if it converts elements and its destination is misaligned. Used by
// `copier` and `upload_rooms`.

#include <cstddef>
#include <span>
#include <vector>

#include "device/backend.hpp"
#include "device/cuda/kernels.hpp"

namespace ringload::inline v0::cuda {

// Adds the pieces of `copies` to `pieces`. Each copy must be one of `op.copies`, and must have a
// strided map or convert elements. The pieces contain host addresses of the slot. Throws
// std::bad_alloc.
void add_boxes(const copy_operation& op, std::span<const copy_op> copies,
               std::vector<box_piece>& pieces);

}  // namespace ringload::inline v0::cuda
