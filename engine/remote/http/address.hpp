// SPDX-License-Identifier: Apache-2.0
#pragma once

// Addresses that a redirect by a public server must not reach.

#include <boost/asio/ip/address.hpp>

namespace ringload::inline v0::remote_http {

// Loopback, private, link-local, multicast and reserved addresses.
bool is_private(const boost::asio::ip::address& address) noexcept;

}  // namespace ringload::inline v0::remote_http
