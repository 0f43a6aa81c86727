// SPDX-License-Identifier: Apache-2.0
#pragma once

// Integrity checks: a manifest lists a digest for each tensor. A load with a manifest fails unless
// every tensor matches. Some formats store digests in the file: see `embedded_digests`.
//
// A tensor is hashed in its final memory, before the load returns it. So the check includes the
// copy to the device: bytes in a GPU are copied back piece by piece. Hashing uses
// `loader_options::copy_threads` additional threads while other tensors are read.

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

/// Returns the CRC-32C (Castagnoli) of `bytes`. `before` is the CRC of the preceding bytes. Uses
/// the crc32 instruction of the CPU if available. May be called from any thread.
RINGLOAD_EXPORT std::uint32_t crc32c(std::span<const std::byte> bytes,
                                     std::uint32_t before = 0) noexcept;

/// Hashes the bytes of one tensor. Both functions are called in a thread of the library. An
/// exception fails the load.
struct hasher {
  std::function<void(std::span<const std::byte>)> update;  // Adds the next bytes, in order.
  std::function<std::vector<std::byte>()> finish;  // Returns the digest; called once, at the end.
};

/// The digest that a tensor must have.
struct tensor_digest {
  std::string name;
  digest_algorithm algorithm = digest_algorithm::sha256;
  std::vector<std::byte> bytes;  // 4 bytes, big-endian, or 32 bytes.
};

/// The digests of one checkpoint. It must list exactly the tensors of the checkpoint, each once, or
/// the load fails with `errc::incomplete_manifest`. Otherwise an unlisted tensor would be
/// unchecked.
struct manifest {
  manifest() = default;

  std::string place = "manifest";  // The path of the manifest, for error texts.
  std::vector<tensor_digest> tensors;
  /// Creates a SHA-256 hasher. The function is called once for each tensor with a SHA-256 digest,
  /// by several threads concurrently. Without this function, a load with SHA-256 digests fails with
  /// `errc::digest_unavailable`.
  std::function<hasher()> sha256;
};

/// The use of digests that files store for their own tensors. A .zt file stores CRC-32C or SHA-256
/// of the stored bytes, before decoding and conversion. A tensor that does not match fails the load
/// with `errc::wrong_digest`, which names the file and the tensor.
///
/// A digest covers the whole stored tensor, so a slice or a shard cannot be checked against it.
///
/// If the file has sparse objects, their indices are checked too. Each index must be within the
/// shape. The row pointers of sparse_csr must not decrease, and must go from 0 to the number of
/// values. A violation is `errc::wrong_indices`. A fill does not check indices, because its memory
/// belongs to the caller.
enum class embedded_digests : std::uint8_t {
  none,        // Digests in files are ignored.
  if_present,  // Checks each tensor that has a digest and is loaded whole.
  require,     // A tensor without one, or loaded in part, is `errc::digest_unavailable`.
};

/// The checks of a load. The address of a manifest, and an `embedded_digests` value, convert to a
/// verification.
struct verification {
  constexpr verification() noexcept = default;
  constexpr verification(const manifest* against) noexcept : checksums(against) {}
  constexpr verification(embedded_digests of_files, hasher (*make_sha256)() = nullptr) noexcept
      : stored(of_files), sha256(make_sha256) {}

  /// Null: no manifest.
  const manifest* checksums = nullptr;
  embedded_digests stored = embedded_digests::none;
  /// Creates a SHA-256 hasher for digests in files, as `manifest::sha256` does for digests of a
  /// manifest. Null: the function of the manifest is used. If both are null, a load that needs a
  /// hasher fails with `errc::digest_unavailable`.
  hasher (*sha256)() = nullptr;
};

/// Parses the output of `ringload sum --manifest`, which has one line for each tensor:
///
///     sha256 9f86d081884c7d65...  model.embed_tokens.weight
///
/// A name with a backslash or a control character is escaped, and its line begins with a backslash.
/// Empty lines and lines that begin with '#' are ignored. Throws `ringload::error` with
/// `errc::malformed_manifest`, which names the line. `place` becomes `manifest::place`.
RINGLOAD_EXPORT manifest parse_manifest(std::string_view text, std::string place = "manifest");

/// Reads a manifest from a file. Blocks on the file system.
RINGLOAD_EXPORT manifest read_manifest(const std::string& path);

/// Returns the line of one tensor, with its line feed.
RINGLOAD_EXPORT std::string manifest_line(const tensor_digest& digest);

}  // namespace ringload::inline v0
