// SPDX-License-Identifier: Apache-2.0
#pragma once

// POST /models/ID/save: writes the served model to a new file beneath one of the allowed folders.
// Without a folder on the command line, no save is allowed.

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

/// The folders to which a client may save. After symlinks are followed, the folder of the file must
/// exist beneath a root. Users who can write beneath a root must be trusted, as in
/// allowed_sources.hpp.
class allowed_targets {
 public:
  /// Throws std::filesystem::filesystem_error if a root does not exist.
  explicit allowed_targets(const std::vector<std::string>& roots);

  bool any() const noexcept { return !roots_.empty(); }
  /// Returns the path of the file, which ends with ".zt" or ".safetensors". Returns an empty
  /// optional if the name is not allowed, or if its folder does not exist.
  std::optional<std::string> resolve(std::string_view name) const;

 private:
  std::vector<std::filesystem::path> roots_;  // Absolute, without symlinks.
};

struct save_request {
  std::string path;
  int zstd_level = 0;
  // Can only be CRC-32C, because this server links no cryptography.
  std::optional<digest_algorithm> digest;
};

/// Parses {"path": "x.zt", "zstd": 3, "digest": "crc32c"}. Only the path is required. Refuses a
/// path that ends neither in .zt nor in .safetensors, and a file name that is too long for Linux.
/// Throws std::invalid_argument with a message for the client.
save_request parse_save_wish(std::string_view body);

/// Writes all tensors of a model in host memory, with the metadata, the composites and the types
/// and attributes of tensors. Fails with EEXIST if the file exists. Fails with
/// `errc::unsupported_dtype` if the format cannot store a tensor, for example quantised blocks in
/// safetensors. `path` must be a result of `allowed_targets`.
boost::asio::awaitable<write_result> save_model(model source, save_request requested,
                                                std::string path);

}  // namespace ringload::server
