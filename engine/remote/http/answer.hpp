// SPDX-License-Identifier: Apache-2.0
#pragma once

// Parses the head of an answer and checks it against the request. Pure functions.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fault.hpp"
#include "remote/http/http.hpp"

namespace ringload::inline v0::remote_http {

struct answer_head {
  unsigned status = 0;
  std::vector<header_field> fields;             // Names in lower case.
  std::optional<std::uint64_t> content_length;  // Empty: chunked, or until the connection ends.

  const std::string* field(std::string_view name) const noexcept;
};

// "bytes 0-99/1000"; "bytes */1000" has no first and last.
struct content_range {
  std::optional<std::uint64_t> first;
  std::uint64_t last = 0;
  std::optional<std::uint64_t> total;
};
std::optional<content_range> parse_content_range(std::string_view text) noexcept;

// A requested range and the known facts of the object.
struct asked_range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;               // More than begin.
  std::optional<std::uint64_t> total;  // Size of the object; empty: not known yet.
  std::string etag;                    // Pinned ETag; empty: not known.
  std::string modified;                // Pinned Last-Modified; only if there is no ETag.
};

// Checks an answer with status 206. Returns the number of bytes from asked.begin on, at least one.
// A wrong range, length or encoding is errc::malformed_answer; another ETag or size is
// errc::changed_file.
result<std::uint64_t> check_partial(const answer_head& head, const asked_range& asked);

// Checks that an answer with a body is of the pinned object and has no Content-Encoding.
result<void> check_identity(const answer_head& head, const asked_range& asked);

// If-Match never matches a weak ETag.
bool is_strong_etag(std::string_view etag) noexcept;

enum class answer_kind : std::uint8_t {
  partial,      // 206; and 200 with a Content-Range, as rclone's S3 server answers
  whole,        // 200
  redirect,     // 301, 302, 303, 307, 308
  again,        // 408, 429, 500, 502, 503, 504: a later try may succeed
  changed,      // 412
  unsatisfied,  // 416
  denied,       // 401, 403
  absent,       // 404, 410
  other,
};
answer_kind kind_of(const answer_head& head) noexcept;

// Returns the fault of a final answer: "the server answered 404 (Not Found)".
fault fault_of(const answer_head& head);

}  // namespace ringload::inline v0::remote_http
