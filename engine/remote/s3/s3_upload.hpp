// SPDX-License-Identifier: Apache-2.0
#pragma once

// The parts of a multipart upload to S3, its addresses, and its XML. Pure functions.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/fault.hpp"
#include "remote/s3/s3_address.hpp"

namespace ringload::inline v0::remote_http {

// Divides an object into at most parts_max parts. If the size of the object is known, all parts
// except the last one have the same size, as some servers require. Otherwise the size of a part
// doubles after every 1,000 parts.
class part_layout {
 public:
  static constexpr std::uint32_t parts_max = 10'000;
  static constexpr std::uint64_t part_bytes_min = std::uint64_t{8} << 20;
  static constexpr std::uint64_t part_bytes_max = std::uint64_t{4} << 30;

  // `object_bytes` is 0 if the size is not known. `write_bytes_max` must be a power of two. A
  // write of at most `write_bytes_max` bytes, whose offset is a multiple of `write_bytes_max`,
  // never extends over two parts. Returns size_overflow if the parts would be too large.
  static result<part_layout> make(std::uint64_t object_bytes, std::uint64_t write_bytes_max);

  // The first part has the number 0.
  std::uint32_t part_at(std::uint64_t offset) const noexcept;
  std::uint64_t begin_of(std::uint32_t part) const noexcept;
  // Returns the size of a part. If the object's size is not known, the last part may be smaller.
  std::uint64_t bytes_of(std::uint32_t part) const noexcept;
  // Returns true if the whole object is known to be one part.
  bool is_single() const noexcept { return object_bytes_ > 0 && object_bytes_ <= part_bytes_; }

 private:
  part_layout(std::uint64_t object_bytes, std::uint64_t part_bytes) noexcept
      : object_bytes_(object_bytes), part_bytes_(part_bytes) {}

  std::uint64_t object_bytes_;
  std::uint64_t part_bytes_;  // The size of the first part.
};

// The addresses of the requests of an upload. `object` is the address of the object.
http_url s3_begin_url(const http_url& object);
// `number` is the number of the part for the server, 1 to 10,000.
http_url s3_part_url(const http_url& object, std::uint32_t number, std::string_view upload_id);
// POST completes the upload, and DELETE aborts the upload.
http_url s3_end_url(const http_url& object, std::string_view upload_id);

// Returns the identifier of the upload. Returns malformed_answer if the body has no valid
// identifier.
result<std::string> parse_s3_upload_id(std::string_view xml);

// ETags of the parts, by number from 0.
using part_etags = std::map<std::uint32_t, std::string>;
// Returns the body of the request that completes an upload.
std::string s3_completion_body(const part_etags& etags);
// Returns true if the body confirms the completion. A response with the status 200 may be an error.
bool is_s3_completion(std::string_view xml);
// Returns the ETag of an object that one PUT has stored: the MD5 of the bytes. Some servers compute
// other ETags, for example for encrypted objects.
std::optional<std::string> s3_put_etag(std::span<const std::byte> bytes);
// Returns the ETag of the complete object: the MD5 of the concatenated MD5 digests of all parts,
// followed by '-' and the number of parts. Returns an empty optional if an ETag of a part is not an
// MD5 digest.
std::optional<std::string> s3_complete_etag(const part_etags& etags);

}  // namespace ringload::inline v0::remote_http
