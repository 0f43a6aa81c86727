// SPDX-License-Identifier: Apache-2.0
#pragma once

// POST /models/ID/save: writes the served model to a new file beneath one of the folders that were
// allowed for that. None is, unless the command line names one.

#include <boost/asio/awaitable.hpp>
#include <filesystem>
#include <optional>
#include <ringload/model.hpp>
#include <ringload/verify.hpp>
#include <ringload/writer.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace ringload::server {

/// Where a client may save to: into existing folders beneath a root, symlinks followed. As with
/// sources, whoever can write beneath a root must be trusted.
class allowed_targets {
 public:
  /// Throws std::filesystem::filesystem_error for a root that does not exist.
  explicit allowed_targets(const std::vector<std::string>& roots);

  bool any() const noexcept { return !roots_.empty(); }
  /// The file's path; empty if the name is not allowed, or its folder does not exist. It ends with
  /// ".zt" or ".safetensors".
  std::optional<std::string> resolve(std::string_view name) const;

 private:
  std::vector<std::filesystem::path> roots_;  // Absolute, without symlinks.
};

struct save_request {
  std::string path;
  int zstd_level = 0;
  std::optional<digest_algorithm> digest;  // CRC-32C: this server links no cryptography.
};

/// {"path": "x.zt", "zstd": 3, "digest": "crc32c"}, of which only the path is required. Throws
/// std::invalid_argument with a sentence for the client: also if the path has another ending, or
/// the file's name is longer than Linux allows.
save_request parse_save_wish(std::string_view body);

/// Writes all tensors of a model of the host. An existing file is EEXIST. `path` ends as
/// `allowed_targets` asks.
boost::asio::awaitable<write_result> save_model(model what, save_request how, std::string path);

}  // namespace ringload::server
