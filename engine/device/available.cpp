// SPDX-License-Identifier: Apache-2.0
#include "device/available.hpp"

#include <algorithm>
#include <fstream>
#include <string>
#include <string_view>

namespace ringload::inline v0 {

namespace {

// Paths are strings here: if memory runs out in path::operator/, libstdc++ 12 frees what it did
// not allocate.

// Returns the number after a word, as in "MemAvailable: 4096 kB" and "inactive_file 4096".
std::optional<std::uint64_t> number_after(const std::string& file, std::string_view wanted) {
  std::ifstream in(file);
  for (std::string word; in >> word;) {
    std::uint64_t number = 0;
    if (word == wanted && in >> number) return number;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> number_in(const std::string& file) {
  std::ifstream in(file);
  std::uint64_t number = 0;
  if (in >> number) return number;  // "max" is not a number: no limit.
  return std::nullopt;
}

// The files of a control group that limit memory, for one version of control groups.
struct group_files {
  const char* folder;  // Relative to /.
  const char* most;
  const char* taken;
  const char* inactive;  // Page cache, in memory.stat.
  const char* active;
};
constexpr group_files version_2 = {"sys/fs/cgroup", "memory.max", "memory.current", "inactive_file",
                                   "active_file"};
constexpr group_files version_1 = {"sys/fs/cgroup/memory", "memory.limit_in_bytes",
                                   "memory.usage_in_bytes", "total_inactive_file",
                                   "total_active_file"};

struct own_groups {
  std::string of_version_2;  // "/user.slice/a.service"; empty: no group.
  std::string of_version_1;
};

// Parses the lines "0::/user.slice/a.service" and "4:cpu,memory:/a".
own_groups groups_in(const std::string& file) {
  own_groups found;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const std::size_t controllers = line.find(':') + 1;
    const std::size_t end = line.find(":/", controllers);
    if (controllers == 0 || end == std::string::npos) continue;
    const std::string listed = "," + line.substr(controllers, end - controllers) + ",";
    if (line.starts_with("0::")) found.of_version_2 = line.substr(end + 1);
    if (listed.find(",memory,") != std::string::npos) found.of_version_1 = line.substr(end + 1);
  }
  return found;
}

std::optional<std::uint64_t> available_in(const std::string& group, const group_files& files) {
  const auto most = number_in(group + "/" + files.most);
  const auto taken = number_in(group + "/" + files.taken);
  if (!most || !taken) return std::nullopt;
  const std::uint64_t cached = number_after(group + "/memory.stat", files.inactive).value_or(0) +
                               number_after(group + "/memory.stat", files.active).value_or(0);
  const std::uint64_t held = *taken - std::min(*taken, cached);
  return *most - std::min(*most, held);
}

// Reduces `least` to the limit of the group and of the groups around it, each of which limits those
// inside it.
void take_least(const std::string& root, const std::string& own_group, const group_files& files,
                std::optional<std::uint64_t>& least) {
  if (own_group.empty()) return;
  for (std::string group = own_group;; group.resize(group.rfind('/'))) {
    while (group.ends_with('/')) group.pop_back();
    if (const auto group_bytes = available_in(root + "/" + files.folder + group, files)) {
      least = std::min(least.value_or(*group_bytes), *group_bytes);
    }
    if (group.empty()) return;
  }
}

}  // namespace

std::optional<std::uint64_t> available_bytes(const std::filesystem::path& root) {
  const std::string& folder = root.native();
  std::optional<std::uint64_t> least = number_after(folder + "/proc/meminfo", "MemAvailable:");
  if (least) *least *= 1024;
  const own_groups groups = groups_in(folder + "/proc/self/cgroup");
  take_least(folder, groups.of_version_2, version_2, least);
  take_least(folder, groups.of_version_1, version_1, least);
  return least;
}

}  // namespace ringload::inline v0
