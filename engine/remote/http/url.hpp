// SPDX-License-Identifier: Apache-2.0
#pragma once

// Parses and resolves HTTP addresses. Pure functions.
//
// The code does not use Boost.URL, for three reasons. Version 1.81, which Debian 12 has, parses
// "http://h:8o/" as port 8 and the path "o/". Its resolve() replaces "%7e" in a path by '~', which
// invalidates a signature of the address. Its encode() ends the process if no memory is left.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/fault.hpp"

namespace ringload::inline v0::remote_http {

struct http_url {
  bool tls = false;
  std::string host;  // In lower case. An IPv6 address has no brackets.
  std::uint16_t port = 80;
  std::string target = "/";  // Path and query as they are sent, without the fragment. Never empty.

  // Compares scheme, host and port. These three parts are the origin of an address.
  bool same_origin(const http_url& url) const noexcept;
  // Returns the value of the Host header. Omits the default port of the scheme.
  std::string authority() const;
  // Returns the address for error texts: "https://host:8443/path". Omits the query, because the
  // query may contain a signature.
  std::string shown() const;
  std::string_view path() const noexcept;
};

// Returns errc::invalid_source_name for a scheme other than http and https, and for an invalid host
// or port. An address with a user name, a password, blanks, control characters or non-ASCII
// characters is refused too, and also an address with more than 8,192 bytes.
result<http_url> parse_http_url(std::string_view text);

// Returns true if a key of an object can be a path: no part is empty, "." or "..", and there are no
// control characters.
bool is_path_key(std::string_view key);

// Resolves the value of a Location header relative to `base`. First percent-encodes bytes that an
// address must not contain, such as blanks and UTF-8.
result<http_url> resolve_location(const http_url& base, std::string_view raw_location);

}  // namespace ringload::inline v0::remote_http
