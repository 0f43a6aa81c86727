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

/// A request target. For example, "/models/a/tensors/b%2Fc/d?limit=5" has the parts "models", "a",
/// "tensors" and "b/c/d". Its query has the key "limit" with the value "5".
struct target {
  // The host and the port of an absolute target, such as "http://localhost:8080/health". Replaces
  // the Host header. Empty if the target begins with a slash.
  std::string host;
  // At most 4 decoded parts. The fourth part contains the rest of the path.
  std::vector<std::string> parts;
  std::map<std::string, std::string> query;
};

/// Returns an empty optional if the text begins neither with a slash nor with http:// and a host,
/// if the host follows a user name, or if a % is not followed by two hexadecimal digits.
std::optional<target> parse_target(std::string_view text);

/// Returns the number that `key` has in the query, or `otherwise` if the query does not contain
/// `key`. Returns an empty optional if the value is not a number.
std::optional<std::uint64_t> number_in(const target& parsed, const std::string& key,
                                       std::uint64_t otherwise);

/// Bytes [begin, end) of a body.
struct byte_range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

enum class range_kind : std::uint8_t { whole, part, outside };

struct range_answer {
  range_kind kind = range_kind::whole;
  byte_range bytes;
};

/// Parses a Range header for a body of `size` bytes. For several ranges, and for a malformed
/// header, returns the whole body, as the standard allows.
range_answer parse_range(std::string_view header, std::uint64_t size);

/// Returns true if an Accept header contains exactly this media type.
bool accepts(std::string_view header, std::string_view type);

/// Returns true if an IP address, such as "127.0.0.1" or "::1", belongs to the loopback interface.
bool is_loopback_address(std::string_view text);

/// Returns true if a Host header names the loopback interface. If the host name of a web page
/// resolves to 127.0.0.1, the requests of the page contain this host name instead.
bool is_loopback_host(std::string_view header);

}  // namespace ringload::server
