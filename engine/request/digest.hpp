// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <ringload/verify.hpp>
#include <span>
#include <string>

#include "base/fault.hpp"
#include "formats/catalog_entries.hpp"

namespace ringload::inline v0::detail {

// Returns true if the caller has provided a hasher for SHA-256.
inline bool has_sha256(const verification& verify) noexcept {
  return verify.sha256 || (verify.checksums != nullptr && verify.checksums->sha256);
}

// Starts a digest. Exceptions that the caller's hasher throws are not caught.
hasher begin_digest(digest_algorithm algorithm, const verification& verify);

// Compares the digest of the hashed bytes with `expected`. If the digests differ, fails with
// errc::wrong_digest. The caller must add the file and the tensor to the error. `digest_source`
// names the origin of the expected digest in the error text, for example "the file".
result<void> end_digest(const hasher& digest_hasher, digest_algorithm algorithm,
                        std::span<const std::byte> expected, const std::string& digest_source);

// A function that fills `into` with the bytes of a file from `offset`.
using read_function = std::function<result<void>(std::uint64_t offset, std::span<std::byte> into)>;

// Reads the stored bytes that `expected` describes, and verifies their digest. Used for bytes that
// the load does not read. Blocks.
result<void> verify_unread_bytes(const read_function& read, const stored_digest& expected,
                                 const verification& verify);

}  // namespace ringload::inline v0::detail
