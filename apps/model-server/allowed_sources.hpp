// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which checkpoints a client may load: the name is resolved to the real path, following every
// symlink, and that path must be beneath a root. Someone who can write beneath a root can still
// replace a file between this check and the load, so whoever can write there must be trusted. Of
// the network only what the named hosts have; the loader sees to it that none of them leads
// elsewhere.

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ringload::server {

class allowed_sources {
 public:
  /// Throws std::filesystem::filesystem_error for a root that does not exist.
  allowed_sources(const std::vector<std::string>& roots, bool hub_cache,
                  std::vector<std::string> hosts = {});

  /// The source for the loader; empty if the name is not allowed or does not exist. The two are not
  /// told apart, so that a client cannot probe for files outside the roots.
  std::optional<std::string> resolve(std::string_view name) const;

 private:
  std::vector<std::filesystem::path> roots_;  // Absolute, without symlinks.
  bool hub_cache_;
  std::vector<std::string> hosts_;  // In lower case.
};

/// Both absolute and without symlinks. A path lies beneath itself.
bool is_beneath(const std::filesystem::path& path, const std::filesystem::path& root);

/// The host of an address of HTTP or HTTPS, in lower case, without port and brackets; empty: it is
/// no such address, or one with a user name.
std::string host_of(std::string_view address);

/// `owner/model` or `owner/model@revision`, and nothing that could be another kind of path.
bool is_hub_name(std::string_view name);

}  // namespace ringload::server
