// SPDX-License-Identifier: Apache-2.0
#pragma once

// Verifies the bytes of loaded tensors. A checksum list contains a digest for each tensor of a
// checkpoint. A load with a checksum list fails unless every loaded tensor matches its digest.
// Files in the format .zt can store digests: see `embedded_digests`.
//
// If a load verifies a checksum list, each tensor is hashed in its final memory, before the load
// returns the tensor. Therefore the check includes the copy to the device. Bytes in GPU memory are
// copied back to the host in pieces. The loader creates `loader_options::copy_threads` additional
// threads for hashing, which run while other tensors are read.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <ringload/export.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ringload::inline v0 {

/// The algorithm of a digest.
enum class digest_algorithm : std::uint8_t {
  crc32c,  // 4 bytes. Detects accidental corruption, but not tampering. Always available.
  sha256,  // 32 bytes. The program must provide a hasher: see `checksum_list::sha256`.
};

/// Returns "crc32c" or "sha256".
RINGLOAD_EXPORT std::string_view name(digest_algorithm algorithm) noexcept;

/// Returns the CRC-32C (Castagnoli) of `bytes`. To continue a CRC, pass the CRC of the preceding
/// bytes as `before`. A build with ISA-L uses the fastest instructions of the CPU. Any other build
/// uses a table and is much slower. Thread-safe.
RINGLOAD_EXPORT std::uint32_t crc32c(std::span<const std::byte> bytes,
                                     std::uint32_t before = 0) noexcept;

/// Hashes the bytes of one tensor. Both functions are called in a thread of the library. An
/// exception fails the load.
struct hasher {
  std::function<void(std::span<const std::byte>)> update;  // Adds the next bytes, in order.
  std::function<std::vector<std::byte>()> finish;  // Returns the digest. Called once, at the end.
};

/// The digest of one tensor.
struct tensor_digest {
  std::string name;                                       // The name of the tensor.
  digest_algorithm algorithm = digest_algorithm::sha256;  // The algorithm of the digest.
  std::vector<std::byte> bytes;  // crc32c: 4 bytes, big-endian. sha256: 32 bytes.
};

/// The digests of the tensors of one checkpoint. The list must contain every tensor of the
/// checkpoint, and no other tensor. Otherwise the load fails with `errc::incomplete_checksum_list`,
/// because a tensor without a digest would not be verified. If the list contains a tensor twice, or
/// a digest does not have the size of its algorithm, the load fails with
/// `errc::malformed_checksum_list`.
struct checksum_list {
  checksum_list() = default;

  std::string place = "checksum list";  // The path of the checksum list, for error texts.
  std::vector<tensor_digest> tensors;   // One digest for each tensor.
  /// Creates a hasher for SHA-256. Called once for each tensor with a SHA-256 digest, by several
  /// threads at the same time. If empty, a load with SHA-256 digests fails with
  /// `errc::digest_unavailable`.
  std::function<hasher()> sha256;
};

/// Whether a load verifies the digests that files store for their tensors. Only .zt files store
/// digests. A digest in a .zt file is the CRC-32C or the SHA-256 of the stored bytes, before
/// decompression and conversion. If a tensor does not match its digest, the load fails with
/// `errc::wrong_digest`. The error names the file and the tensor.
///
/// A digest covers a whole tensor. Therefore a slice or a shard of a tensor cannot be verified.
///
/// With `if_present` and `require`, the load also verifies the indices of sparse objects, if the
/// tensor with the indices is loaded as a whole. The load checks that each index is within the
/// shape. In sparse_csr, the load also checks that the row pointers start at 0, do not decrease,
/// and end at the number of values. A load with a wrong index fails with `errc::wrong_indices`. A
/// fill does not verify indices, because its memory belongs to the caller.
enum class embedded_digests : std::uint8_t {
  none,        // Ignores the digests.
  if_present,  // Verifies each tensor that has a digest and is loaded as a whole.
  /// Verifies every tensor. The load fails with `errc::digest_unavailable` if a tensor has no
  /// digest or is not loaded as a whole.
  require,
};

/// The digests that a load verifies. The address of a checksum list and a value of
/// `embedded_digests` convert implicitly to a verification.
struct verification {
  verification() noexcept = default;
  /// Verifies the digests of a checksum list.
  verification(const checksum_list* list) noexcept : checksums(list) {}
  /// Verifies the digests that the files store. `make_sha256` creates hashers for SHA-256.
  verification(embedded_digests in_files, std::function<hasher()> make_sha256 = {}) noexcept
      : stored(in_files), sha256(std::move(make_sha256)) {}

  /// The checksum list, or null.
  const checksum_list* checksums = nullptr;
  /// Whether the digests that files store are verified.
  embedded_digests stored = embedded_digests::none;
  /// Creates a hasher for SHA-256 digests in files. Called once for each tensor with a SHA-256
  /// digest, by several threads at the same time. If empty, `checksum_list::sha256` is used. If
  /// both functions are empty, a load that needs a hasher fails with `errc::digest_unavailable`.
  std::function<hasher()> sha256 = {};
};

/// Parses a checksum list. `text` is the output of `ringload sum --checksums`, which has one line
/// for each tensor:
///
///     sha256 9f86d081884c7d65...  model.embed_tokens.weight
///
/// A name with a backslash or a control character is escaped. The line of an escaped name begins
/// with a backslash. Empty lines, and lines that begin with '#', are ignored. `place` becomes
/// `checksum_list::place`. Throws `ringload::error` with `errc::malformed_checksum_list` if a line
/// is invalid. The error names the line.
RINGLOAD_EXPORT checksum_list parse_checksum_list(std::string_view text,
                                                  std::string place = "checksum list");

/// Reads a checksum list from a file. Blocks during file system operations. Throws
/// `ringload::error`.
RINGLOAD_EXPORT checksum_list read_checksum_list(const std::string& path);

/// Returns the line of one tensor in a checksum list. The line ends with a line feed.
RINGLOAD_EXPORT std::string checksum_line(const tensor_digest& digest);

}  // namespace ringload::inline v0
