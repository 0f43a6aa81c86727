// SPDX-License-Identifier: Apache-2.0
#pragma once

// Decides which checkpoints a client may load. The name is resolved to a path without symlinks,
// which must be beneath a root. A user who can write beneath a root can replace a file between this
// check and the load. Therefore every user with this permission must be trusted. Network sources
// must be on one of the allowed hosts, and the loader refuses redirects to other hosts.

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ringload::server {

class allowed_sources {
 public:
  /// Throws std::filesystem::filesystem_error if a root does not exist.
  allowed_sources(const std::vector<std::string>& roots, bool hub_cache,
                  std::vector<std::string> hosts = {});

  /// Returns the source for the loader. Returns an empty optional if the name is not allowed, or if
  /// it does not exist. These two cases have the same result, so that a client cannot find out
  /// which files exist outside the roots.
  std::optional<std::string> resolve(std::string_view name) const;

 private:
  std::vector<std::filesystem::path> roots_;  // Absolute, without symlinks.
  bool hub_cache_;
  std::vector<std::string> hosts_;  // In lower case.
};

/// Returns true if `path` is in the folder `root`, in a sub-folder, or equal to `root`. Both paths
/// must be absolute and without symlinks.
bool is_beneath(const std::filesystem::path& path, const std::filesystem::path& root);

/// Returns the host of an HTTP or HTTPS address, in lower case, without port and brackets. Returns
/// an empty string for any other text, and for an address with a user name.
std::string host_of(std::string_view address);

/// Returns true for `owner/model` and `owner/model@revision`.
bool is_hub_name(std::string_view name);

}  // namespace ringload::server
