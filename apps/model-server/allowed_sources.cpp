// SPDX-License-Identifier: Apache-2.0
#include "allowed_sources.hpp"

#include <algorithm>
#include <system_error>

namespace ringload::server {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t name_bytes_max = 4096;

bool is_beneath(const fs::path& path, const fs::path& root) {
  const auto at = std::mismatch(root.begin(), root.end(), path.begin(), path.end());
  return at.first == root.end();
}

bool is_plain(std::string_view part) {
  return !part.empty() && !part.starts_with('.') && std::ranges::all_of(part, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_';
  });
}

}  // namespace

bool is_hub_name(std::string_view name) {
  const std::size_t slash = name.find('/');
  if (slash == std::string_view::npos || !is_plain(name.substr(0, slash))) return false;
  name.remove_prefix(slash + 1);
  const std::size_t at = name.find('@');
  if (at != std::string_view::npos && !is_plain(name.substr(at + 1))) return false;
  return is_plain(name.substr(0, at));
}

allowed_sources::allowed_sources(const std::vector<std::string>& roots, bool hub_cache)
    : hub_cache_(hub_cache) {
  for (const std::string& root : roots) roots_.push_back(fs::canonical(root));
}

std::optional<std::string> allowed_sources::resolve(std::string_view name) const {
  // A NUL would end the path for the kernel, after we had looked at all of it.
  if (name.empty() || name.size() > name_bytes_max || name.find('\0') != std::string_view::npos) {
    return std::nullopt;
  }
  for (const fs::path& root : roots_) {
    // An absolute name replaces the root.
    std::error_code failed;
    fs::path path = fs::canonical(root / fs::path(name), failed);
    if (!failed && is_beneath(path, root)) return path.string();
  }
  // The loader would prefer a path of that name, if there is one where we were started.
  std::error_code failed;
  if (hub_cache_ && is_hub_name(name) && !fs::exists(fs::path(name), failed) && !failed) {
    return std::string(name);
  }
  return std::nullopt;
}

}  // namespace ringload::server
