// SPDX-License-Identifier: Apache-2.0
#pragma once

// A list of the shared memory that this process has pinned for GPUs. If the process attaches the
// same model again for a GPU, the GPU copies from the pinned memory in this list.

#include <memory>
#include <ringload/export.hpp>

namespace ringload::inline v0 {

class arena;

// Adds sealed shared memory to the list. Ignores other memory. Thread-safe. Exported for
// ringload_cuda.
RINGLOAD_EXPORT void note_pinned(arena& memory);

// Returns the pinned arena whose memory file is the file of `descriptor`. Returns null if there is
// none. Thread-safe.
std::shared_ptr<arena> find_pinned(int descriptor);

}  // namespace ringload::inline v0
