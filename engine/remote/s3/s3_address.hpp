// SPDX-License-Identifier: Apache-2.0
#pragma once

// s3://bucket/key and the http addresses that it stands for: of an object, and of a listing. Pure.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/fault.hpp"
#include "remote/http/url.hpp"

namespace ringload::inline v0::remote_http {

struct s3_address {
  std::string bucket;
  std::string key;  // Of an object, or of a prefix with or without its last '/'; empty: the bucket.
};

bool is_s3_address(std::string_view text) noexcept;

// The key is taken as it is written, not percent-decoded. invalid_source_name where no bucket can
// be called so, and for a key of more than 1,024 bytes, with control characters, or with parts that
// are empty, "." or "..".
result<s3_address> parse_s3_address(std::string_view text);

// Where a bucket is reached.
struct s3_place {
  std::string region;    // Empty: us-east-1, or what the server says a bucket's region is.
  std::string endpoint;  // "https://host[:port]"; empty: Amazon's of the region.
  std::optional<bool> path_style;  // https://host/bucket/key; empty: where there is an endpoint, or
                                   // the bucket's name has a '.', which no certificate is for.
};

inline constexpr std::string_view s3_default_region = "us-east-1";
std::string_view region_of(const s3_place& place) noexcept;

// The address of an object.
result<http_url> s3_object_url(const s3_place& place, const s3_address& object);

enum class s3_depth : std::uint8_t {
  one,  // What lies in the folder itself.
  all,  // In its sub-folders as well.
};

// ListObjectsV2 of what lies in a folder: `prefix` is empty or ends with '/'. `token` is that of
// the page before, or empty.
result<http_url> s3_list_url(const s3_place& place, const std::string& bucket,
                             std::string_view prefix, std::string_view token, s3_depth depth);

}  // namespace ringload::inline v0::remote_http
