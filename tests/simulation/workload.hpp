// SPDX-License-Identifier: Apache-2.0
#pragma once

// A random program that uses ringload within a simulated world.

#include <cstdint>
#include <map>
#include <memory>
#include <ringload/catalog.hpp>
#include <ringload/verify.hpp>
#include <span>
#include <string>
#include <vector>

#include "world.hpp"

namespace ringload::simulation {

using bytes_by_name = std::map<std::string, std::string>;

// A checkpoint on disk, and its tensors as an ordinary loader loads them.
struct known_file {
  std::string path;
  std::string content;
  bytes_by_name stored;
  bytes_by_name as_bf16;
  checksum_list digests;         // Of the tensors as they are stored.
  checksum_list wrong_digests;   // The digest of one tensor is wrong.
  std::uint64_t window_min = 0;  // Of a load in a window.
};

// A version of a checkpoint, and the delta from the version before.
struct known_version {
  std::string path;
  std::string delta;  // Empty for the first version.
  bytes_by_name stored;
  std::map<std::string, tensor_info> tensors;
};

// The files that all seeds use. Hand-made code writes the checkpoints. The engine loads them and
// makes the deltas, in a first world without faults.
class known_files {
 public:
  known_files();
  ~known_files();
  known_files(const known_files&) = delete;
  known_files& operator=(const known_files&) = delete;

  const std::vector<known_file>& all() const noexcept { return all_; }
  // A file of many reads. Not in all().
  const known_file& wide() const noexcept { return wide_; }
  const std::string& folder() const noexcept { return folder_; }
  // Each version is the base of the next one.
  const std::vector<known_version>& versions() const noexcept { return versions_; }
  const std::string& version_folder() const noexcept { return version_folder_; }
  const std::string& socket_folder() const noexcept { return socket_folder_; }

 private:
  struct files_on_disk;
  void make_versions();
  void learn();
  static known_file know(const std::string& path);
  std::unique_ptr<files_on_disk> made_;
  std::vector<known_file> all_;
  known_file wide_;
  std::vector<known_version> versions_;
  std::string folder_;
  std::string version_folder_;
  std::string socket_folder_;
};

// The settings that the seed decides, without the named parts.
world_settings settings_of(std::uint64_t seed, std::span<const std::string> removed_parts);

// The names of all parts that can be removed from a world.
std::vector<std::string> removable_parts();

struct run_result {
  std::uint64_t trace_hash = 0;
  std::uint64_t operations = 0;
  std::uint64_t failed = 0;  // By a simulated fault.
  std::uint64_t cancelled = 0;
  std::uint64_t transfers = 0;
  std::uint64_t turns = 0;
};

// Runs one world. A violation ends the process.
run_result run_world(const world_settings& chosen, const known_files& files);

}  // namespace ringload::simulation
