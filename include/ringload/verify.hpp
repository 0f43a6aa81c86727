// SPDX-License-Identifier: Apache-2.0
#pragma once

// Integrity checks: a manifest lists a digest for each tensor, and a load that is given one fails
// unless every tensor matches. Some formats keep digests in the file itself: see
// `embedded_digests`.
//
// A tensor is hashed in its final memory, before it is handed out. So the check covers the copy to
// the device too: bytes in a GPU are copied back piece by piece. It runs on
// `loader_options::copy_threads` threads of its own, while other tensors are read.

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
  crc32c,  // 4 bytes. Detects accidental corruption, not tampering. Built in.
  sha256,  // 32 bytes. Not built in: see `manifest::sha256`.
};

/// "crc32c", "sha256"
RINGLOAD_EXPORT std::string_view name(digest_algorithm algorithm) noexcept;

/// The CRC-32C (Castagnoli) of `bytes`; `before` is the CRC of the bytes before them. Uses the
/// CPU's crc32 instruction where there is one. Any thread.
RINGLOAD_EXPORT std::uint32_t crc32c(std::span<const std::byte> bytes,
                                     std::uint32_t before = 0) noexcept;

/// Hashes the bytes of one tensor. Both functions are called in a thread of the library; an
/// exception fails the load.
struct hasher {
  std::function<void(std::span<const std::byte>)> update;  // The next bytes, in order.
  std::function<std::vector<std::byte>()> finish;          // The digest; called once, at the end.
};

/// The digest that a tensor must have.
struct tensor_digest {
  std::string name;
  digest_algorithm algorithm = digest_algorithm::sha256;
  std::vector<std::byte> bytes;  // 4, big-endian, or 32.
};

/// The digests of one checkpoint. It must list each tensor of the checkpoint once and no other, or
/// the load fails with `errc::incomplete_manifest`: an unlisted tensor would go unchecked.
struct manifest {
  manifest() = default;

  std::string place = "manifest";  // For errors: the path it was read from.
  std::vector<tensor_digest> tensors;
  /// Makes a SHA-256 hasher; called once for each tensor that needs one, by several threads at a
  /// time. Without it a load with SHA-256 digests fails with `errc::digest_unavailable`.
  std::function<hasher()> sha256;
};

/// What a load does with the digests that files hold of their own tensors, as .zt does: CRC-32C or
/// SHA-256 of the stored bytes, before decoding and conversion. A tensor that does not match fails
/// the load with `errc::wrong_digest`, which names the file and the tensor.
///
/// A digest is of the whole stored tensor, so a slice or a shard cannot be checked against it.
///
/// Where the file holds sparse objects, their indices are checked as well: each within the shape,
/// and the row pointers of sparse_csr from 0 to the number of values without going back. What
/// breaks that is `errc::wrong_indices`. Not in a fill, whose memory is the caller's.
enum class embedded_digests : std::uint8_t {
  none,        // They are not looked at.
  if_present,  // Of each tensor that has one and is loaded whole.
  require,     // A tensor without one, or loaded in part, is `errc::digest_unavailable`.
};

/// What a load checks; the address of a manifest, or a policy, is one too.
struct verification {
  constexpr verification() noexcept = default;
  constexpr verification(const manifest* against) noexcept : checksums(against) {}
  constexpr verification(embedded_digests of_files, hasher (*make_sha256)() = nullptr) noexcept
      : stored(of_files), sha256(make_sha256) {}

  /// Null: there is none.
  const manifest* checksums = nullptr;
  embedded_digests stored = embedded_digests::none;
  /// Makes a SHA-256 hasher for digests of files, as `manifest::sha256` does for those of a
  /// manifest; null: that of the manifest. Without either a load that would need it fails with
  /// `errc::digest_unavailable`.
  hasher (*sha256)() = nullptr;
};

/// Reads what `ringload sum --manifest` writes, a line for each tensor:
///
///     sha256 9f86d081884c7d65...  model.embed_tokens.weight
///
/// A name with a backslash or a control character is escaped, and its line begins with a backslash.
/// Empty lines and those that begin with '#' are ignored. Throws `ringload::error` with
/// `errc::malformed_manifest`, which names the line. `place` becomes `manifest::place`.
RINGLOAD_EXPORT manifest parse_manifest(std::string_view text, std::string place = "manifest");

/// Reads a manifest from a file. Blocks on the file system.
RINGLOAD_EXPORT manifest read_manifest(const std::string& path);

/// The line of one tensor, with its line feed.
RINGLOAD_EXPORT std::string manifest_line(const tensor_digest& of);

}  // namespace ringload::inline v0
