// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>

namespace ringload::inline v0 {

// Returns the same number for all files on one drive: the device number of the file system or, if
// that is a partition, of the whole disk. `root` is the parent folder of /sys, for tests.
std::uint64_t block_device_id(::dev_t device, const std::filesystem::path& root = "/");

}  // namespace ringload::inline v0
