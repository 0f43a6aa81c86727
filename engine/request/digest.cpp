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
  return verify.sha256 != nullptr ? verify.sha256() : verify.checksums->sha256();
}

result<void> end_digest(const hasher& stream, digest_algorithm algorithm,
                        std::span<const std::byte> wanted, const std::string& said_by) {
  const std::vector<std::byte> found = stream.finish();
  if (std::ranges::equal(found, wanted)) return {};
  return fault{errc::wrong_digest, "",
               "its " + std::string(name(algorithm)) + " is " + hex(found) + ", but " + said_by +
                   " says " + hex(wanted)};
}

result<void> check_unread(const read_function& read, const stored_digest& wanted,
                          const verification& verify) {
  const hasher pass = begin_digest(wanted.algorithm, verify);
  std::vector<std::byte> room(std::size_t{64} << 10);
  const std::uint64_t end = wanted.stream.offset + wanted.stream.bytes;
  for (std::uint64_t position = wanted.stream.offset; position < end;) {
    const auto step =
        static_cast<std::size_t>(std::min<std::uint64_t>(end - position, room.size()));
    const auto part = std::span(room).first(step);
    if (auto status = read(position, part); !status)
      return fault{status.error().code, "", status.error().cause};
    pass.update(part);
    position += step;
  }
  return end_digest(pass, wanted.algorithm, wanted.bytes, "the file");
}

}  // namespace ringload::inline v0::detail
