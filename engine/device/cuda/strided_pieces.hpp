// SPDX-License-Identifier: Apache-2.0
#pragma once

// Builds the work items of a kernel for one slot (I/O buffer): for the copies that are strided,
// dequantised, or converted to a misaligned address. Used by `copier` and `upload_rooms`.

#include <cstddef>
#include <span>
#include <vector>

#include "device/backend.hpp"
#include "device/cuda/kernels.hpp"

namespace ringload::inline v0::cuda {

// Adds the pieces of `copies` to `pieces`. Each copy must be a copy of `op` that has a map or
// converts. The pieces contain host addresses of the slot. Throws std::bad_alloc.
void add_boxes(const copy_operation& op, std::span<const copy_op> copies,
               std::vector<box_piece>& pieces);

}  // namespace ringload::inline v0::cuda
