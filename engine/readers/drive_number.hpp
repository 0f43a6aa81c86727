// SPDX-License-Identifier: Apache-2.0
#pragma once

// Tells drives apart.

#include <sys/types.h>

#include <cstdint>
#include <filesystem>

namespace ringload::inline v0 {

// The same number for all files on one drive: that of the device which has their file system, or,
// where that is a partition, of the whole disk. `root` is the folder of /sys.
std::uint64_t drive_number(::dev_t device, const std::filesystem::path& root = "/");

}  // namespace ringload::inline v0
