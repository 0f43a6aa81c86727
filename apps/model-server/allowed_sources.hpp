// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which checkpoints a client may name. A client says what to read on this machine, so a name is
// turned into the real path first, with every symlink followed, and that path must lie beneath a
// root. Who can write beneath a root can still swap a file between this check and the load: roots
// are for those who are trusted to say what is served.

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ringload::server {

class allowed_sources {
 public:
  /// Throws std::filesystem::filesystem_error for a root that is not there.
  allowed_sources(const std::vector<std::string>& roots, bool hub_cache);

  /// What to hand to the loader; empty if the name may not be loaded, or names nothing. Both are
  /// one answer, so that nobody can ask which files there are outside the roots.
  std::optional<std::string> resolve(std::string_view name) const;

 private:
  std::vector<std::filesystem::path> roots_;  // Absolute, without symlinks.
  bool hub_cache_;
};

/// `owner/model` or `owner/model@revision`, and nothing that could be another kind of path.
bool is_hub_name(std::string_view name);

}  // namespace ringload::server
