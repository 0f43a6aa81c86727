// SPDX-License-Identifier: Apache-2.0
#pragma once

// The shared memory of this process that is pinned for GPUs. If the process attaches the same
// memory again for a GPU, the GPU copies from the pinned mapping.

#include <memory>
#include <ringload/export.hpp>

namespace ringload::inline v0 {

class arena;

// Adds memory that other processes can map and that is sealed. Ignores other memory. Thread-safe.
// Exported for ringload_cuda.
RINGLOAD_EXPORT void note_pinned(arena& memory);

// Returns the pinned arena with the same memory file as `descriptor`, or null. Thread-safe.
std::shared_ptr<arena> find_pinned(int descriptor);

}  // namespace ringload::inline v0
