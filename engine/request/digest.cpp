// SPDX-License-Identifier: Apache-2.0
#include "request/digest.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/crc32c_hasher.hpp"
#include "formats/checksum_list.hpp"

namespace ringload::inline v0::detail {

hasher begin_digest(digest_algorithm algorithm, const verification& how) {
  if (algorithm == digest_algorithm::crc32c) return begin_crc32c();
  return how.sha256 != nullptr ? how.sha256() : how.checksums->sha256();
}

result<void> end_digest(const hasher& of, digest_algorithm algorithm,
                        std::span<const std::byte> wanted, const std::string& said_by) {
  const std::vector<std::byte> found = of.finish();
  if (std::ranges::equal(found, wanted)) return {};
  return fault{errc::wrong_digest, "",
               "its " + std::string(name(algorithm)) + " is " + hex(found) + ", but " + said_by +
                   " says " + hex(wanted)};
}

result<void> check_unread(const read_function& read, const stored_digest& wanted,
                          const verification& how) {
  const hasher pass = begin_digest(wanted.algorithm, how);
  std::vector<std::byte> room(std::size_t{64} << 10);
  const std::uint64_t end = wanted.stream.offset + wanted.stream.bytes;
  for (std::uint64_t at = wanted.stream.offset; at < end;) {
    const auto step = static_cast<std::size_t>(std::min<std::uint64_t>(end - at, room.size()));
    const auto part = std::span(room).first(step);
    if (auto good = read(at, part); !good) return fault{good.error().code, "", good.error().cause};
    pass.update(part);
    at += step;
  }
  return end_digest(pass, wanted.algorithm, wanted.bytes, "the file");
}

}  // namespace ringload::inline v0::detail
