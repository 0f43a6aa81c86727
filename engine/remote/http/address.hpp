// SPDX-License-Identifier: Apache-2.0
#pragma once

// Recognises loopback, private, link-local, multicast and reserved addresses. A redirect by a
// public server must not reach such an address.

#include <boost/asio/ip/address.hpp>

namespace ringload::inline v0::remote_http {

bool is_private(const boost::asio::ip::address& address) noexcept;

}  // namespace ringload::inline v0::remote_http
