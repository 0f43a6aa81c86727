// SPDX-License-Identifier: Apache-2.0
#pragma once

// Recognises loopback, private, link-local, multicast and reserved addresses. A redirect by a
// public server must not reach such an address.

#include <boost/asio/ip/address.hpp>
#include <string_view>

namespace ringload::inline v0::remote_http {

bool is_private(const boost::asio::ip::address& address) noexcept;

// Returns true if the host has a private address, or a name that is usual in private networks. Used
// with a proxy, because the address of the host is not known behind a proxy.
bool names_private(std::string_view host);

}  // namespace ringload::inline v0::remote_http
