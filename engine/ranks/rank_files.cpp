// SPDX-License-Identifier: Apache-2.0

#include "ranks/rank_files.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "base/serialize.hpp"

namespace ringload::inline v0::detail {

namespace {

xxh3_128_value digest_of(const std::vector<std::byte>& bytes) { return xxh3_128(bytes).finish(); }

// Returns a text that identifies the machine and the mount namespace of this process. Returns an
// empty text if /proc is not mounted.
std::string file_system_name() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::error_code failure;
  const std::filesystem::path mounts = std::filesystem::read_symlink("/proc/self/ns/mnt", failure);
  return boot.empty() || failure ? std::string() : boot + mounts.string();
}

}  // namespace

rank_files describe_files(const opened_checkpoint& checkpoint) {
  rank_files out;
  const auto is_of_store = [](const open_file& file) { return file.object != nullptr; };
  out.from_store = std::ranges::any_of(checkpoint.files, is_of_store) ? 1 : 0;
  const std::string file_system = file_system_name();
  if (file_system.empty()) return out;
  packer place;
  packer version;
  place.text(file_system);
  for (const open_file& file : checkpoint.files) {
    struct ::stat status = {};
    if (file.supply || file.object || ::fstat(file.buffered.get(), &status) != 0) return out;
    std::error_code failure;
    place.text(std::filesystem::absolute(file.path, failure).string());
    if (failure) return out;
    version.number(std::uint64_t{status.st_dev});
    version.number(std::uint64_t{status.st_ino});
    version.number(file.bytes);
    version.number(static_cast<std::uint64_t>(file.modified.tv_sec));
    version.number(static_cast<std::uint64_t>(file.modified.tv_nsec));
  }
  out.place = digest_of(place.take());
  out.version = digest_of(version.take());
  out.has_place = 1;
  return out;
}

std::optional<different_files> find_different_files(std::span<const rank_files> ranks) noexcept {
  for (std::uint32_t rank = 1; rank < ranks.size(); ++rank) {
    for (std::uint32_t other = 0; other < rank; ++other) {
      const bool is_same_place = ranks[rank].has_place == 1 && ranks[other].has_place == 1 &&
                                 ranks[rank].place == ranks[other].place;
      if (is_same_place && ranks[rank].version != ranks[other].version)
        return different_files{rank, other};
    }
  }
  return std::nullopt;
}

}  // namespace ringload::inline v0::detail
