// SPDX-License-Identifier: Apache-2.0
#pragma once

// Integrity on request: a manifest says what the bytes of each tensor hash to, and a load that is
// given one hands out no tensor whose bytes hash to something else.
//
// A tensor is hashed when all of it has landed, where it has landed, and before anybody is told of
// it. So the check covers the way into the device's memory too: bytes in a GPU are copied back
// piece by piece. It runs on threads of its own, as many as `limits::copy_threads`, while other
// tensors are read.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <ringload/export.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ringload::inline v0 {

enum class digest_algorithm : std::uint8_t {
  crc32c,  // 4 bytes. Finds accidents, not intent; the library has it.
  sha256,  // 32 bytes. The library links no cryptography: see `manifest::sha256`.
};

/// "crc32c", "sha256"
RINGLOAD_EXPORT std::string_view name(digest_algorithm algorithm) noexcept;

/// The CRC-32C (Castagnoli) of `bytes`; with `before`, of what that was the CRC of and then
/// `bytes`. Uses the processor's own instruction where there is one. Any thread.
RINGLOAD_EXPORT std::uint32_t crc32c(std::span<const std::byte> bytes,
                                     std::uint32_t before = 0) noexcept;

/// One pass over the bytes of one tensor. Both are called in a thread of the library; what they
/// throw ends the load.
struct hasher {
  std::function<void(std::span<const std::byte>)> update;  // The next bytes, in order.
  std::function<std::vector<std::byte>()> finish;          // The digest; called once, at the end.
};

/// What the bytes of one tensor must hash to.
struct tensor_digest {
  std::string name;
  digest_algorithm algorithm = digest_algorithm::sha256;
  std::vector<std::byte> bytes;  // 4, the highest first, or 32.
};

/// What the tensors of one checkpoint must hash to. It lists each tensor of the checkpoint once and
/// no other: a load fails with `errc::incomplete_manifest` where either has a tensor that the other
/// lacks, for an unlisted tensor would be trusted unseen.
struct manifest {
  manifest() = default;

  std::string place = "manifest";  // What errors call it: the path it was read from.
  std::vector<tensor_digest> tensors;
  /// Begins a SHA-256; called once for each tensor that needs one, by several threads at a time.
  /// Without it a manifest that holds one fails with `errc::digest_unavailable`.
  std::function<hasher()> sha256;
};

/// Reads what `ringload sum --manifest` writes, a line for each tensor:
///
///     sha256 9f86d081884c7d65...  model.embed_tokens.weight
///
/// A name with a backslash or a control character makes its line begin with a backslash, and is
/// escaped. Empty lines, and those that begin with '#', are left out. Throws `ringload::error`,
/// which names the line: `errc::malformed_manifest`. `place` is what later errors call the
/// manifest.
RINGLOAD_EXPORT manifest parse_manifest(std::string_view text, std::string place = "manifest");

/// The same of a file's content. Blocks on the file system.
RINGLOAD_EXPORT manifest read_manifest(const std::string& path);

/// The line of one tensor, its end included.
RINGLOAD_EXPORT std::string manifest_line(const tensor_digest& of);

}  // namespace ringload::inline v0
