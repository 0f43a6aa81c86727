// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace ringload::inline v0 {

// Normalises a path that a checkpoint file contains. The path is relative to the folder of the
// file. Returns an empty path if the path could leave the folder.
inline std::string path_beneath(std::string_view path) {
  if (path.empty() || path.front() == '/' ||
      path.find_first_of(std::string_view("\0\\", 2)) != std::string_view::npos) {
    return {};
  }
  std::string out;
  while (!path.empty()) {
    const std::string_view part = path.substr(0, path.find('/'));
    path.remove_prefix(std::min(path.size(), part.size() + 1));
    if (part.empty() || part == ".") continue;
    if (part == "..") return {};
    if (!out.empty()) out += '/';
    out += part;
  }
  return out;
}

}  // namespace ringload::inline v0
