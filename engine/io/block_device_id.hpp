// SPDX-License-Identifier: Apache-2.0
#pragma once

// Identifies the drive of a file, because each drive has its own limit on the bytes in flight. Also
// finds mounts that are not on a drive of this machine.

#include <sys/types.h>

#include <cstdint>
#include <filesystem>

namespace ringload::inline v0 {

// Returns a number that identifies the drive of a file system. If the file system is on a
// partition, the number is the device number of the whole disk. Otherwise the number is the device
// number of the file system. `root` is the parent folder of /sys. Tests pass another folder.
std::uint64_t block_device_id(::dev_t device, const std::filesystem::path& root = "/");

// Returns true for a network file system or FUSE, whose latency can be large and whose reads can
// stall. `device` is the device number of the file `fd`.
bool is_distant(int fd, ::dev_t device) noexcept;

// Returns true for types of file systems (statfs::f_type) that are on drives or in the memory of
// this machine, although their device number is not that of a drive. Examples are btrfs, overlayfs
// and tmpfs.
bool is_local_file_system(long type) noexcept;

}  // namespace ringload::inline v0
