// SPDX-License-Identifier: Apache-2.0
#pragma once

// Parses the answers of S3: pages of a listing (ListObjectsV2) and errors. Pure functions.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/fault.hpp"

namespace ringload::inline v0::remote_http {

inline constexpr std::uint64_t s3_page_bytes_max = std::uint64_t{8} << 20;
inline constexpr std::size_t s3_objects_max = 100'000;  // Limit for all pages of a listing.

struct s3_object {
  std::string key;
  std::uint64_t bytes = 0;
  std::string etag;  // Includes the quotes if the server lists them.
};

struct s3_page {
  std::vector<s3_object> objects;
  std::vector<std::string> prefixes;  // Sub-folders; each name ends with '/'.
  std::string next;                   // Token of the next page; empty: this page is the last.
};

// Returns malformed_answer if the body is not a valid ListObjectsV2 answer. Keys are decoded if the
// page declares an encoding.
result<s3_page> parse_s3_page(std::string_view xml);

struct s3_error {
  std::string code;    // "NoSuchBucket"; empty: the body is not an S3 error.
  std::string region;  // Region of the bucket, if the server reports a region.
};

// Parses the body of an answer with a status other than 200. Errors must not show any other part of
// the body, because the body may hold a signature.
s3_error parse_s3_error(std::string_view xml);

struct s3_refusal {
  unsigned status = 0;
  s3_error error;
  bool was_signed = false;
  std::string missing_keys_reason = {};  // See s3_options.
};

// Converts a refusal to a fault with advice: source_not_found, access_denied, or remote_failed.
// `shown` names the requested object.
fault s3_fault(const s3_refusal& answer, const std::string& shown);

}  // namespace ringload::inline v0::remote_http
