// SPDX-License-Identifier: Apache-2.0
#include "request/digest.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/crc32c_hasher.hpp"
#include "formats/checksum_list.hpp"

namespace ringload::inline v0::detail {

hasher begin_digest(digest_algorithm algorithm, const verification& verify) {
  if (algorithm == digest_algorithm::crc32c) return begin_crc32c();
  return verify.sha256 ? verify.sha256() : verify.checksums->sha256();
}

result<void> end_digest(const hasher& digest_hasher, digest_algorithm algorithm,
                        std::span<const std::byte> expected, const std::string& digest_source) {
  const std::vector<std::byte> actual = digest_hasher.finish();
  if (std::ranges::equal(actual, expected)) return {};
  return fault{errc::wrong_digest, "",
               "its " + std::string(name(algorithm)) + " is " + hex(actual) +
                   ", but the digest in " + digest_source + " is " + hex(expected)};
}

result<void> verify_unread_bytes(const read_function& read, const stored_digest& expected,
                                 const verification& verify) {
  const hasher stored_hasher = begin_digest(expected.algorithm, verify);
  std::vector<std::byte> buffer(std::size_t{64} << 10);
  const std::uint64_t end = expected.stream.offset + expected.stream.bytes;
  for (std::uint64_t position = expected.stream.offset; position < end;) {
    const auto step =
        static_cast<std::size_t>(std::min<std::uint64_t>(end - position, buffer.size()));
    const auto chunk = std::span(buffer).first(step);
    if (auto status = read(position, chunk); !status)
      return fault{status.error().code, "", status.error().cause()};
    stored_hasher.update(chunk);
    position += step;
  }
  return end_digest(stored_hasher, expected.algorithm, expected.bytes, "the file");
}

}  // namespace ringload::inline v0::detail
