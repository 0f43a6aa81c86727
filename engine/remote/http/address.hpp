// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which addresses a server out there must not lead us to.

#include <boost/asio/ip/address.hpp>

namespace ringload::inline v0::remote_http {

// This machine's own, of private networks and links, for groups, or reserved.
bool is_private(const boost::asio::ip::address& one) noexcept;

}  // namespace ringload::inline v0::remote_http
