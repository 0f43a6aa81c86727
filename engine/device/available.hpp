// SPDX-License-Identifier: Apache-2.0
#pragma once

// How much memory this process can still be given, by the machine and by the control groups that it
// is in: the one who takes more than that is killed, and is never asked before.

#include <cstdint>
#include <filesystem>
#include <optional>

namespace ringload::inline v0 {

// In bytes, without swapping; what the page cache would give up for it counts. Empty where the
// system does not say. Of control groups those of version 2 are seen. `root` is where /proc and
// /sys are looked for.
std::optional<std::uint64_t> available_bytes(const std::filesystem::path& root = "/");

}  // namespace ringload::inline v0
