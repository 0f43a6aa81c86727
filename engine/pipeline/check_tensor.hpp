// SPDX-License-Identifier: Apache-2.0
#pragma once

// Integrity checks: once a tensor has all its bytes, and before it is handed out, its digest is
// compared with the digest of the manifest or of the file, and the indices of a sparse object are
// checked. Stored bytes that are decoded are hashed while they are decoded: see stream_state.

#include <boost/asio/awaitable.hpp>
#include <cstdint>

#include "core/fault.hpp"

namespace ringload::inline v0::detail {

class job;

// Hashes a tensor in a check thread. The load keeps the tensor's memory meanwhile.
boost::asio::awaitable<void> check_tensor(job& load, std::uint32_t tensor, result<void>& outcome);

}  // namespace ringload::inline v0::detail
