// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the head of an answer says, and whether it is the answer that was asked for. Pure.

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
  std::optional<std::uint64_t> content_length;  // Empty: chunked, or up to the connection's end.

  const std::string* field(std::string_view name) const noexcept;
};

// "bytes 0-99/1000"; "bytes */1000" has no first and last.
struct content_range {
  std::optional<std::uint64_t> first;
  std::uint64_t last = 0;
  std::optional<std::uint64_t> total;
};
std::optional<content_range> parse_content_range(std::string_view text) noexcept;

// A range that was asked for, and what is known of the object.
struct asked_range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;               // More than begin.
  std::optional<std::uint64_t> total;  // Of the object; empty: not known before this answer.
  std::string etag;                    // Pinned; empty: not known.
  std::string modified;                // Likewise, of Last-Modified; only where there is no ETag.
};

// Of a 206: how many bytes follow, from asked.begin on; at least one. A range, a size, a length or
// an encoding that does not fit is a fault; another ETag or size, errc::changed_file.
result<std::uint64_t> check_partial(const answer_head& head, const asked_range& asked);

// The same object as was pinned, and bytes as they are: for any answer that has a body of it.
result<void> check_identity(const answer_head& head, const asked_range& asked);

// Whether If-Match can name it: a weak ETag never matches.
bool is_strong_etag(std::string_view etag) noexcept;

enum class answer_kind : std::uint8_t {
  partial,      // 206; and 200 with a Content-Range, as rclone's S3 server answers
  whole,        // 200
  redirect,     // 301, 302, 303, 307, 308
  again,        // 408, 429, 500, 502, 503, 504: later it may succeed.
  changed,      // 412
  unsatisfied,  // 416
  denied,       // 401, 403
  absent,       // 404, 410
  other,
};
answer_kind kind_of(const answer_head& head) noexcept;

// What is wrong where an answer is final: "the server answered 404 (Not Found)".
fault fault_of(const answer_head& head);

}  // namespace ringload::inline v0::remote_http
