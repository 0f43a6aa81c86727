// SPDX-License-Identifier: Apache-2.0

#include "device/available.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <ringload/device.hpp>
#include <string>
#include <string_view>

namespace ringload::inline v0 {

namespace {

// This file joins paths as strings. path::operator/ of libstdc++ 12 corrupts memory if an
// allocation fails.

// Returns the number after the key, for example 4096 for the line "MemAvailable: 4096 kB". Returns
// an empty optional if the file does not contain the key.
std::optional<std::uint64_t> number_after(const std::string& file, std::string_view key) {
  std::ifstream in(file);
  for (std::string word; in >> word;) {
    std::uint64_t number = 0;
    if (word == key && in >> number) return number;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> read_number(const std::string& file) {
  std::ifstream in(file);
  std::uint64_t number = 0;
  if (in >> number) return number;
  return std::nullopt;  // The text "max" means that the group has no limit.
}

// Names of the files and keys that contain the memory usage of a control group. The names depend on
// the version of control groups.
struct group_files {
  const char* folder;  // Relative to the root folder.
  const char* limit;
  // Name of the file with the soft limit: the kernel slows the group down if its usage is above
  // this limit. Null if the version has no soft limit of this kind.
  const char* throttle;
  const char* usage;
  const char* inactive_cache;  // Key of the inactive page cache in memory.stat.
  const char* active_cache;
};
constexpr group_files version_2 = {"sys/fs/cgroup",  "memory.max",    "memory.high",
                                   "memory.current", "inactive_file", "active_file"};
constexpr group_files version_1 = {
    "sys/fs/cgroup/memory",  "memory.limit_in_bytes", nullptr,
    "memory.usage_in_bytes", "total_inactive_file",   "total_active_file"};

struct own_group_paths {
  std::string v2_path;  // For example "/user.slice/a.service". Empty if the process is in no group.
  std::string v1_path;
};

// Parses lines such as "0::/user.slice/a.service" and "4:cpu,memory:/a".
own_group_paths read_own_groups(const std::string& file) {
  own_group_paths groups;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const std::size_t controllers = line.find(':') + 1;
    const std::size_t end = line.find(":/", controllers);
    if (controllers == 0 || end == std::string::npos) continue;
    const std::string listed = "," + line.substr(controllers, end - controllers) + ",";
    if (line.starts_with("0::")) groups.v2_path = line.substr(end + 1);
    if (listed.find(",memory,") != std::string::npos) groups.v1_path = line.substr(end + 1);
  }
  return groups;
}

std::optional<std::uint64_t> available_in_group(const std::string& group,
                                                const group_files& files) {
  auto limit = read_number(group + "/" + files.limit);
  const auto throttle =
      files.throttle ? read_number(group + "/" + files.throttle) : std::optional<std::uint64_t>();
  if (throttle) limit = std::min(limit.value_or(*throttle), *throttle);
  const auto usage = read_number(group + "/" + files.usage);
  if (!limit || !usage) return std::nullopt;
  const std::uint64_t cached =
      number_after(group + "/memory.stat", files.inactive_cache).value_or(0) +
      number_after(group + "/memory.stat", files.active_cache).value_or(0);
  const std::uint64_t used = *usage - std::min(*usage, cached);
  return *limit - std::min(*limit, used);
}

// Lowers `available` to the available memory of the group and of each of its parent groups. The
// usage of a parent includes the usage of all its children, so a parent can have less available
// memory than the group.
void apply_group_limits(const std::string& root, const std::string& own_group,
                        const group_files& files, std::optional<std::uint64_t>& available) {
  if (own_group.empty()) return;
  for (std::string group = own_group;; group.resize(group.rfind('/'))) {
    while (group.ends_with('/')) group.pop_back();
    if (const auto group_bytes = available_in_group(root + "/" + files.folder + group, files)) {
      available = std::min(available.value_or(*group_bytes), *group_bytes);
    }
    if (group.empty()) return;
  }
}

}  // namespace

std::optional<std::uint64_t> available_host_bytes() { return available_bytes(); }

std::optional<std::uint64_t> available_bytes(const std::filesystem::path& root) {
  const std::string& folder = root.native();
  std::optional<std::uint64_t> available = number_after(folder + "/proc/meminfo", "MemAvailable:");
  if (available) *available *= 1024;
  const own_group_paths groups = read_own_groups(folder + "/proc/self/cgroup");
  apply_group_limits(folder, groups.v2_path, version_2, available);
  apply_group_limits(folder, groups.v1_path, version_1, available);
  return available;
}

}  // namespace ringload::inline v0
