// SPDX-License-Identifier: Apache-2.0
#include "allowed_sources.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

namespace ringload::server {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t name_bytes_max = 4096;

bool is_plain(std::string_view part) {
  return !part.empty() && !part.starts_with('.') && std::ranges::all_of(part, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_';
  });
}

}  // namespace

bool is_beneath(const fs::path& path, const fs::path& root) {
  const auto at = std::mismatch(root.begin(), root.end(), path.begin(), path.end());
  return at.first == root.end();
}

bool is_hub_name(std::string_view name) {
  const std::size_t slash = name.find('/');
  if (slash == std::string_view::npos || !is_plain(name.substr(0, slash))) return false;
  name.remove_prefix(slash + 1);
  const std::size_t at = name.find('@');
  if (at != std::string_view::npos && !is_plain(name.substr(at + 1))) return false;
  return is_plain(name.substr(0, at));
}

std::string host_of(std::string_view address) {
  std::string out;
  for (const char c : address) {
    if (c <= ' ' || c >= '\x7f') return {};
    out += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  const bool tls = out.starts_with("https://");
  if (!tls && !out.starts_with("http://")) return {};
  out.erase(0, tls ? 8 : 7);
  out.resize(std::min(out.size(), out.find_first_of("/?#")));
  if (out.find('@') != std::string::npos) return {};
  if (!out.starts_with('[')) return out.substr(0, out.find(':'));
  const std::size_t end = out.find(']');
  return end == std::string::npos ? std::string() : out.substr(1, end - 1);
}

allowed_sources::allowed_sources(const std::vector<std::string>& roots, bool hub_cache,
                                 std::vector<std::string> hosts)
    : hub_cache_(hub_cache), hosts_(std::move(hosts)) {
  for (std::string& host : hosts_) {
    for (char& c : host) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  for (const std::string& root : roots) roots_.push_back(fs::canonical(root));
}

std::optional<std::string> allowed_sources::resolve(std::string_view name) const {
  // For the kernel, a path ends at its first NUL.
  if (name.empty() || name.size() > name_bytes_max || name.find('\0') != std::string_view::npos) {
    return std::nullopt;
  }
  if (const std::string host = host_of(name); !host.empty()) {
    const bool named = std::ranges::find(hosts_, host) != hosts_.end();
    return named ? std::optional(std::string(name)) : std::nullopt;
  }
  for (const fs::path& root : roots_) {
    // Joining a root and an absolute path returns the absolute path.
    std::error_code failed;
    fs::path path = fs::canonical(root / fs::path(name), failed);
    if (!failed && is_beneath(path, root)) return path.string();
  }
  // If the working directory contains a path with this name, the loader would load this path
  // instead of the model of the hub.
  std::error_code failed;
  if (hub_cache_ && is_hub_name(name) && !fs::exists(fs::path(name), failed) && !failed) {
    return std::string(name);
  }
  return std::nullopt;
}

}  // namespace ringload::server
