// SPDX-License-Identifier: Apache-2.0
#include "io/block_device_id.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <filesystem>
#include <fstream>

#include "base/unique_fd.hpp"
#include "support/skip.hpp"
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

TEST_CASE("is_local_file_system: some file systems without a device number are on local drives") {
  CHECK(is_local_file_system(0x9123683E));   // btrfs
  CHECK(is_local_file_system(0x794C7630));   // overlayfs
  CHECK(!is_local_file_system(0x6969));      // NFS
  CHECK(!is_local_file_system(0x65735546));  // FUSE
}

TEST_CASE("is_distant: a file in memory is not on a distant mount, nor is a file of a drive") {
  const unique_fd folder(::open("/dev/shm", O_RDONLY | O_CLOEXEC | O_DIRECTORY));
  struct ::stat status = {};
  if (!folder || ::fstat(folder.get(), &status) != 0) return skip("there is no /dev/shm");
  if (major(status.st_dev) != 0) return skip("/dev/shm is on a drive");
  CHECK(!is_distant(folder.get(), status.st_dev));
  CHECK(!is_distant(folder.get(), makedev(8, 1)));
  CHECK(is_distant(-1, makedev(0, 45)));  // The type of the file system is unknown.
}
