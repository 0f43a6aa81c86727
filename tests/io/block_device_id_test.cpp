// SPDX-License-Identifier: Apache-2.0
#include "io/block_device_id.hpp"

#include <doctest/doctest.h>
#include <sys/sysmacros.h>

#include <filesystem>
#include <fstream>

#include "support/temporary_folder.hpp"

using namespace ringload;
using namespace ringload::testing;
namespace fs = std::filesystem;

TEST_CASE("block_device_id: partitions of one disk are one drive, all else is a drive by itself") {
  const temporary_folder root;
  const fs::path disk = root.path() / "sys/devices/pci/block/sda";
  const fs::path numbers = root.path() / "sys/dev/block";
  fs::create_directories(disk / "sda1");
  fs::create_directories(numbers);
  std::ofstream(disk / "dev") << "8:0\n";
  std::ofstream(disk / "sda1" / "dev") << "8:1\n";
  std::ofstream(disk / "sda1" / "partition") << "1\n";
  fs::create_directory_symlink(disk, numbers / "8:0");
  fs::create_directory_symlink(disk / "sda1", numbers / "8:1");
  CHECK(block_device_id(makedev(8, 1), root.path()) == makedev(8, 0));
  CHECK(block_device_id(makedev(8, 0), root.path()) == makedev(8, 0));
  // A file system without a block device, such as tmpfs and NFS.
  CHECK(block_device_id(makedev(0, 27), root.path()) == makedev(0, 27));
  // A disk without a device number.
  std::ofstream(disk / "dev") << "unknown\n";
  CHECK(block_device_id(makedev(8, 1), root.path()) == makedev(8, 1));
}
