// SPDX-License-Identifier: Apache-2.0
#pragma once

// The addresses that are fetched from: http://host[:port]/target and https://. Pure.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/fault.hpp"

namespace ringload::inline v0::remote_http {

struct http_url {
  bool tls = false;
  std::string host;  // Lower case; an IPv6 address without its brackets.
  std::uint16_t port = 80;
  std::string target = "/";  // Path and query, as they are sent: never empty, no fragment.

  // Scheme, host and port: what a connection is made to, and what credentials belong to.
  bool same_origin(const http_url& other) const noexcept;
  // The value of the Host header: the port only where it is not the scheme's own.
  std::string authority() const;
  // For errors, and where it is asked for again: "https://host:8443/path". The query, which may
  // be a signature, is left out.
  std::string shown() const;
  // The path without the query.
  std::string_view path() const noexcept;
};

// Fails with errc::invalid_source_name: another scheme, a user name or password, control
// characters or blanks, no host, a port that is none, more than 8,192 bytes.
result<http_url> parse_http_url(std::string_view text);

// What a Location header leads to, from `base`.
result<http_url> resolve_location(const http_url& base, std::string_view location);

}  // namespace ringload::inline v0::remote_http
