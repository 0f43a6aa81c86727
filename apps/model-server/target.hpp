// SPDX-License-Identifier: Apache-2.0
#pragma once

// Parses a request's target and headers, which are untrusted, into plain data.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ringload::server {

/// "/models/a/tensors/b%2Fc/d?limit=5": the parts models, a, tensors, b/c/d, and a query.
struct target {
  std::vector<std::string> parts;  // At most 4, the last with all that follows. Decoded.
  std::map<std::string, std::string> query;
};

/// Empty: it does not begin with a slash, or holds a % without two hexadecimal digits.
std::optional<target> parse_target(std::string_view text);

/// The number that a query names; `otherwise` if it names none. Empty: it is no number.
std::optional<std::uint64_t> number_in(const target& of, const std::string& key,
                                       std::uint64_t otherwise);

/// Of a body: from `begin` up to, not including, `end`.
struct byte_range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

enum class range_kind : std::uint8_t { whole, part, outside };

struct range_answer {
  range_kind kind = range_kind::whole;
  byte_range bytes;
};

/// What a Range header asks of `size` bytes. More than one range, and what cannot be understood,
/// are answered with the whole, as the standard allows.
range_answer parse_range(std::string_view header, std::uint64_t size);

/// Whether an Accept header names exactly this media type.
bool accepts(std::string_view header, std::string_view type);

/// Whether a Host header names this machine's loopback. A web page whose own name is made to point
/// at 127.0.0.1 sends its own name.
bool is_loopback_host(std::string_view header);

}  // namespace ringload::server
