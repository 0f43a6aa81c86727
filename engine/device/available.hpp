// SPDX-License-Identifier: Apache-2.0
#pragma once

// Finds how much memory the process can still use. A load checks this number before it allocates
// host memory. Linux lets a process allocate more memory than the machine has. Later, when the
// process writes to that memory, the OOM killer ends the process.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <ringload/export.hpp>

namespace ringload::inline v0 {

// Returns the number of available bytes, limited by the machine and by the control groups of the
// process. Counts reclaimable page cache as available. Does not count swap. Returns an empty
// optional if the number is unknown. Reads control groups of version 1 and 2. memory.high counts as
// a limit too, because the kernel slows a group heavily above this value. `root` is the folder that
// contains `proc` and `sys`, so that tests can pass another folder. Exported for ringload_cuda.
RINGLOAD_EXPORT std::optional<std::uint64_t> available_bytes(
    const std::filesystem::path& root = "/");

}  // namespace ringload::inline v0
