// SPDX-License-Identifier: Apache-2.0
#pragma once

// Parses the XML responses of S3: pages of a listing (ListObjectsV2), and errors. Pure functions.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/fault.hpp"

namespace ringload::inline v0::remote_http {

inline constexpr std::uint64_t s3_page_bytes_max = std::uint64_t{8} << 20;
// Maximum number of objects and folders in all pages of a listing.
inline constexpr std::size_t s3_objects_max = 100'000;

struct s3_object {
  std::string key;
  std::uint64_t bytes = 0;
  std::string etag;  // Includes the quotes if the server lists them.
};

struct s3_page {
  std::vector<s3_object> objects;
  std::vector<std::string> prefixes;  // Sub-folders, as key prefixes. S3 ends each with '/'.
  std::string next;                   // Token of the next page. Empty if this page is the last.
};

// Returns malformed_answer if the body is not a valid ListObjectsV2 response. Percent-decodes the
// keys and prefixes if the page declares the encoding "url".
result<s3_page> parse_s3_page(std::string_view xml);

struct s3_error {
  std::string code;    // For example "NoSuchBucket". Empty if the body is not an S3 error.
  std::string region;  // Region of the bucket. Empty if the server does not report a region.
};

// Parses the body of a response with a status other than 200. The code and the region may appear in
// error texts. Other text of the body must not appear, because this text may contain a signature.
s3_error parse_s3_error(std::string_view xml);

// Returns true for an error after which the same request may succeed, for example "SlowDown".
bool is_temporary(const s3_error& error) noexcept;

struct s3_refusal {
  unsigned status = 0;
  s3_error error;
  bool was_signed = false;
  std::string missing_keys_reason = {};
};

// Converts an error response to a fault that tells the user what to do. The code is
// source_not_found, access_denied, or remote_failed. `shown` names the object.
fault s3_fault(const s3_refusal& response, const std::string& shown);

}  // namespace ringload::inline v0::remote_http
