// SPDX-License-Identifier: Apache-2.0
#pragma once

// How much memory this process can still use, limited by the machine and by its control groups.
// Memory is overcommitted: if the process uses more, the OOM killer ends it.

#include <cstdint>
#include <filesystem>
#include <optional>

namespace ringload::inline v0 {

// Returns bytes without swap; reclaimable page cache counts as available. Returns no value if
// unknown. Reads control groups of version 1 and 2. `root` is the parent folder of /proc and /sys,
// for tests.
std::optional<std::uint64_t> available_bytes(const std::filesystem::path& root = "/");

}  // namespace ringload::inline v0
