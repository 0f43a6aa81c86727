// SPDX-License-Identifier: Apache-2.0
#pragma once

// Computes digests of streamed bytes and compares them.

#include <functional>
#include <ringload/verify.hpp>
#include <span>
#include <string>

#include "base/fault.hpp"
#include "formats/catalog_entries.hpp"

namespace ringload::inline v0::detail {

// Returns true if SHA-256 digests of files can be computed.
inline bool has_sha256(const verification& verify) noexcept {
  return verify.sha256 != nullptr || (verify.checksums != nullptr && verify.checksums->sha256);
}

// Creates a hasher for a file's digest. Throws if the caller's hasher throws.
hasher begin_digest(digest_algorithm algorithm, const verification& verify);

// Fails with errc::wrong_digest, without a place, if the digests differ. `said_by` names the origin
// of the expected digest: "the file".
result<void> end_digest(const hasher& stream, digest_algorithm algorithm,
                        std::span<const std::byte> wanted, const std::string& said_by);

// Fills `into` with the bytes of a file that begin at `offset`.
using read_function = std::function<result<void>(std::uint64_t offset, std::span<std::byte> into)>;

// Checks the digest of a part of a file that no load reads. Blocks.
result<void> check_unread(const read_function& read, const stored_digest& wanted,
                          const verification& verify);

}  // namespace ringload::inline v0::detail
