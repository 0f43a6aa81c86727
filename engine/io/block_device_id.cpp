// SPDX-License-Identifier: Apache-2.0

#include "io/block_device_id.hpp"

#include <sys/sysmacros.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

namespace ringload::inline v0 {

std::uint64_t block_device_id(::dev_t device, const std::filesystem::path& root) {
  const std::string name = std::to_string(major(device)) + ":" + std::to_string(minor(device));
  const std::filesystem::path partition = root / "sys/dev/block" / name;
  std::error_code ignored;
  if (!std::filesystem::exists(partition / "partition", ignored)) return device;
  // /sys/dev/block links to the folder of the partition, whose parent is the folder of the disk.
  std::ifstream disk(partition / ".." / "dev");
  unsigned disk_major = 0;
  unsigned disk_minor = 0;
  char colon = 0;
  if (!(disk >> disk_major >> colon >> disk_minor) || colon != ':') return device;
  return makedev(disk_major, disk_minor);
}

}  // namespace ringload::inline v0
