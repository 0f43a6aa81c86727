// SPDX-License-Identifier: Apache-2.0
#pragma once

// Parses and checks the status and header of an HTTP response. Pure functions.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fault.hpp"
#include "remote/http/http.hpp"

namespace ringload::inline v0::remote_http {

struct response_head {
  unsigned status = 0;
  std::vector<header_field> fields;  // Names are in lower case.
  // Empty if the body is chunked or ends with the connection.
  std::optional<std::uint64_t> content_length;

  const std::string* field(std::string_view name) const noexcept;
};

// The value of Content-Range: "bytes 0-99/1000". For "bytes */1000", `first` is empty. `last` is
// valid only if `first` is set.
struct content_range {
  std::optional<std::uint64_t> first;
  std::uint64_t last = 0;
  std::optional<std::uint64_t> total;
};
std::optional<content_range> parse_content_range(std::string_view text) noexcept;

// A requested range and the known properties of the object.
struct requested_range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;               // Greater than `begin`.
  std::optional<std::uint64_t> total;  // Size of the object. Empty if not known yet.
  std::string etag;                    // Expected ETag. Empty if not known.
  std::string modified;                // Expected Last-Modified. Used only if `etag` is empty.
};

// Checks a response that has a part of the object. Returns the number of bytes in the response, at
// least 1. These bytes begin at requested.begin. Returns errc::malformed_answer for a wrong range,
// length or encoding, and errc::changed_file for another ETag or size.
result<std::uint64_t> check_partial(const response_head& head, const requested_range& requested);

// Checks that a response is for the expected version of the object and has no Content-Encoding.
result<void> check_identity(const response_head& head, const requested_range& requested);

// Returns true if a server can accept the ETag in If-Match. Weak ETags are never accepted.
bool is_strong_etag(std::string_view etag) noexcept;

enum class response_kind : std::uint8_t {
  partial,      // Status 206, or 200 with a Content-Range, which rclone's S3 server sends.
  whole,        // 200
  redirect,     // 301, 302, 303, 307, 308
  retryable,    // 408, 429, 500, 502, 503, 504: A later request may succeed.
  changed,      // 412
  unsatisfied,  // 416
  denied,       // 401, 403
  absent,       // 404, 410
  other,
};
response_kind kind_of(const response_head& head) noexcept;

// Returns the fault for a response that is not retried: "the server answered 404 (Not Found)".
fault fault_of(const response_head& head);

}  // namespace ringload::inline v0::remote_http
