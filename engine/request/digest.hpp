// SPDX-License-Identifier: Apache-2.0
#pragma once

// Digests of bytes that pass by, and what they are compared with.

#include <functional>
#include <ringload/verify.hpp>
#include <span>
#include <string>

#include "base/fault.hpp"
#include "formats/catalog_entries.hpp"

namespace ringload::inline v0::detail {

// Whether digests of files that need SHA-256 can be computed.
inline bool has_sha256(const verification& how) noexcept {
  return how.sha256 != nullptr || (how.checksums != nullptr && how.checksums->sha256);
}

// For a digest of a file. Throws what the caller's hasher throws.
hasher begin_digest(digest_algorithm algorithm, const verification& how);

// errc::wrong_digest, without a place, if the bytes that were hashed are others. `said_by` is who
// said what they hash to: "the file".
result<void> end_digest(const hasher& of, digest_algorithm algorithm,
                        std::span<const std::byte> wanted, const std::string& said_by);

// Fills `into` from that byte of a file on.
using read_function = std::function<result<void>(std::uint64_t offset, std::span<std::byte> into)>;

// The digest of a part of a file that no load reads, because nothing is made of it. Blocks.
result<void> check_unread(const read_function& read, const stored_digest& wanted,
                          const verification& how);

}  // namespace ringload::inline v0::detail
