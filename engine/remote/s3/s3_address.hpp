// SPDX-License-Identifier: Apache-2.0
#pragma once

// Parses s3://bucket/key and gs://bucket/key, and builds the HTTP addresses of objects and
// listings. Pure functions.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/fault.hpp"
#include "remote/http/url.hpp"

namespace ringload::inline v0::remote_http {

struct s3_address {
  std::string bucket;
  // Key of an object, or a prefix of keys with or without a final '/'. Empty for the whole bucket.
  std::string key;
};

inline constexpr std::string_view s3_scheme = "s3://";
inline constexpr std::string_view gs_scheme = "gs://";  // Google Cloud Storage.

// Does not percent-decode the key. Returns invalid_source_name for an invalid bucket name, and for
// a key that has more than 1,024 bytes, control characters, or a part that is empty, "." or "..".
result<s3_address> parse_s3_address(std::string_view text, std::string_view scheme = s3_scheme);

struct s3_place {
  std::string region;  // Empty means the region that the server reports, or us-east-1.
  // For example "https://host:9000". If empty, Amazon's endpoint of the region is used.
  std::string endpoint;
  // If true, addresses have the form https://host/bucket/key. If false, https://bucket.host/key.
  // Empty means true for a custom `endpoint`, and for a bucket name that contains a capital, '_' or
  // '.'. Capitals and '_' are invalid in a host name. Certificates do not match the host name of a
  // bucket with '.'.
  std::optional<bool> path_style;
};

inline constexpr std::string_view s3_default_region = "us-east-1";
std::string_view region_of(const s3_place& place) noexcept;

result<http_url> s3_object_url(const s3_place& place, const s3_address& object);

enum class s3_depth : std::uint8_t {
  one,  // Objects and sub-folders of the folder itself.
  all,  // Objects of the folder and of all its sub-folders. No sub-folders are listed.
};

// Returns the address of a ListObjectsV2 request for a folder. `prefix` is empty or ends with '/'.
// `token` is `s3_page::next` of the previous page, or empty for the first page.
result<http_url> s3_list_url(const s3_place& place, const std::string& bucket,
                             std::string_view prefix, std::string_view token, s3_depth depth);

}  // namespace ringload::inline v0::remote_http
