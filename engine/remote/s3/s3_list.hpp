// SPDX-License-Identifier: Apache-2.0
#pragma once

// What S3 answers: a page of a listing (ListObjectsV2), and an error. Pure.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/fault.hpp"

namespace ringload::inline v0::remote_http {

inline constexpr std::uint64_t s3_page_bytes_max = std::uint64_t{8} << 20;
inline constexpr std::size_t s3_objects_max = 100'000;  // Of all pages of a listing.

struct s3_object {
  std::string key;
  std::uint64_t bytes = 0;
  std::string etag;  // With its quotes, as the header has it.
};

struct s3_page {
  std::vector<s3_object> objects;
  std::vector<std::string> prefixes;  // Of keys that lie deeper: each ends with '/'.
  std::string next;                   // The token of the next page; empty: this is the last.
};

// malformed_answer where it is not what ListObjectsV2 promises. Keys are decoded where the page
// says that they are encoded.
result<s3_page> parse_s3_page(std::string_view xml);

struct s3_error {
  std::string code;    // "NoSuchBucket"; empty where the body is no error of S3.
  std::string region;  // Where the bucket is, if the server says so.
};

// Of a body that came with another status than 200: nothing else of it is to be shown, since it may
// hold a signature.
s3_error parse_s3_error(std::string_view xml);

struct s3_refusal {
  unsigned status = 0;
  s3_error why;
  bool was_signed = false;
  std::string missing_keys_reason = {};  // See s3_options.
};

// What such an answer means, and what can be done about it: source_not_found, access_denied, or
// remote_failed. `shown` is what was asked for.
fault s3_fault(const s3_refusal& answer, const std::string& shown);

}  // namespace ringload::inline v0::remote_http
