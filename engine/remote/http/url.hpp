// SPDX-License-Identifier: Apache-2.0
#pragma once

// HTTP addresses: http://host[:port]/target and https://. Pure functions.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/fault.hpp"

namespace ringload::inline v0::remote_http {

struct http_url {
  bool tls = false;
  std::string host;  // Lower case; an IPv6 address without its brackets.
  std::uint16_t port = 80;
  std::string target = "/";  // Path and query as sent; never empty, without fragment.

  // Compares scheme, host and port. Connections and credentials belong to an origin.
  bool same_origin(const http_url& url) const noexcept;
  // The value of the Host header. The default port of the scheme is omitted.
  std::string authority() const;
  // The address for errors: "https://host:8443/path", without the query, which may be a signature.
  std::string shown() const;
  std::string_view path() const noexcept;
};

// Returns errc::invalid_source_name for another scheme, a user name or password, control characters
// or blanks, an invalid host or port, or more than 8,192 bytes.
result<http_url> parse_http_url(std::string_view text);

// Resolves a Location header relative to `base`.
result<http_url> resolve_location(const http_url& base, std::string_view location);

}  // namespace ringload::inline v0::remote_http
