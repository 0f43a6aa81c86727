// SPDX-License-Identifier: Apache-2.0
#pragma once

// How much memory this process can still use, by the machine and by its control groups. Memory is
// overcommitted: using more gets the process killed by the OOM killer.

#include <cstdint>
#include <filesystem>
#include <optional>

namespace ringload::inline v0 {

// In bytes, without swap; reclaimable page cache counts as available. Empty if unknown. Control
// groups are of version 1 or 2. `root` is the folder of /proc and /sys.
std::optional<std::uint64_t> available_bytes(const std::filesystem::path& root = "/");

}  // namespace ringload::inline v0
