// SPDX-License-Identifier: Apache-2.0
#pragma once

// Decides which hosts are contacted without the proxy.

#include <cstdint>
#include <span>
#include <string>

namespace ringload::inline v0::remote_http {

// Returns true if an entry of the list matches the host, by the rules of NO_PROXY. "*" matches all
// hosts. "example.com" and ".example.com" match the host and its sub-domains. "host:80" matches one
// port only. "10.0.0.0/8" matches the addresses of a network. `host` must be in lower case. If
// `host` is an IPv6 address, it must have no brackets.
bool is_exempt(std::span<const std::string> entries, const std::string& host, std::uint16_t port);

}  // namespace ringload::inline v0::remote_http
