// SPDX-License-Identifier: Apache-2.0
#include "device/available.hpp"

#include <algorithm>
#include <fstream>
#include <string>
#include <string_view>

namespace ringload::inline v0 {

namespace {

namespace fs = std::filesystem;

// The number behind a word, as in "MemAvailable: 4096 kB" and "inactive_file 4096".
std::optional<std::uint64_t> number_after(const fs::path& file, std::string_view wanted) {
  std::ifstream in(file);
  for (std::string word; in >> word;) {
    std::uint64_t number = 0;
    if (word == wanted && in >> number) return number;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> number_in(const fs::path& file) {
  std::ifstream in(file);
  std::uint64_t number = 0;
  if (in >> number) return number;  // "max" is none.
  return std::nullopt;
}

// "/user.slice/a.service", of the line "0::/user.slice/a.service"; empty where there is none.
std::string group_of(const fs::path& file) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("0::/")) return line.substr(3);
  }
  return {};
}

std::optional<std::uint64_t> available_in(const fs::path& group) {
  const auto most = number_in(group / "memory.max");
  const auto taken = number_in(group / "memory.current");
  if (!most || !taken) return std::nullopt;
  const std::uint64_t cached = number_after(group / "memory.stat", "inactive_file").value_or(0) +
                               number_after(group / "memory.stat", "active_file").value_or(0);
  const std::uint64_t held = *taken - std::min(*taken, cached);
  return *most - std::min(*most, held);
}

}  // namespace

std::optional<std::uint64_t> available_bytes(const fs::path& root) {
  std::optional<std::uint64_t> least = number_after(root / "proc/meminfo", "MemAvailable:");
  if (least) *least *= 1024;
  const std::string own = group_of(root / "proc/self/cgroup");
  if (own.empty()) return least;
  // Each group bounds those in it.
  const fs::path top = root / "sys/fs/cgroup";
  for (fs::path group = fs::path(own).relative_path();; group = group.parent_path()) {
    if (const auto here = available_in(top / group)) {
      least = std::min(least.value_or(*here), *here);
    }
    if (group.empty()) return least;
  }
}

}  // namespace ringload::inline v0
