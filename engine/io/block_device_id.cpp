// SPDX-License-Identifier: Apache-2.0

#include "io/block_device_id.hpp"

#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
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

bool is_local_file_system(long type) noexcept {
  constexpr long local_types[] = {
      0x9123683E,  // btrfs
      0x794C7630,  // overlayfs
      0x2FC12FC1,  // ZFS
      0xCA451A4E,  // bcachefs
      0x01021994,  // tmpfs
      0x858458F6,  // ramfs
      0x958458F6,  // hugetlbfs
  };
  return std::ranges::find(local_types, type) != std::end(local_types);
}

bool is_distant(int fd, ::dev_t device) noexcept {
  if (major(device) != 0) return false;
  struct ::statfs file_system = {};
  if (::fstatfs(fd, &file_system) != 0) return true;
  return !is_local_file_system(static_cast<long>(file_system.f_type));
}

}  // namespace ringload::inline v0
