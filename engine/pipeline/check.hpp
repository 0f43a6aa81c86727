// SPDX-License-Identifier: Apache-2.0
#pragma once

// Integrity checks: once a tensor has all its bytes, and before it is handed out, its digest is
// compared with the manifest's or the file's, and the indices of a sparse object are looked at.
// Stored bytes that become others are hashed while they are decoded: see stream_state.
//
// There is one checker coroutine for each check thread; both are made for the first load that asks.

#include <boost/asio/awaitable.hpp>

namespace ringload::inline v0::detail {

class engine;

// Loops: takes the next tensor, hashes it in a check thread, passes the result to its job.
boost::asio::awaitable<void> checker(engine& e);

}  // namespace ringload::inline v0::detail
