// SPDX-License-Identifier: Apache-2.0
#pragma once

// Identifies the drive of a file, so that each drive has its own limit on the bytes in flight.

#include <sys/types.h>

#include <cstdint>
#include <filesystem>

namespace ringload::inline v0 {

// Returns a number that identifies the drive of a file system. If the file system is on a
// partition, the number is the device number of the whole disk. Otherwise the number is the device
// number of the file system. `root` is the parent folder of /sys. Tests pass another folder.
std::uint64_t block_device_id(::dev_t device, const std::filesystem::path& root = "/");

}  // namespace ringload::inline v0
