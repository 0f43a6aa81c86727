// SPDX-License-Identifier: Apache-2.0
#pragma once

// The digest of a tensor that is saved, made from its bytes in memory while these are written.

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <ringload/save.hpp>

#include "core/fault.hpp"

namespace ringload::inline v0::detail {

class save_job;

// Hashes a tensor in a check thread.
boost::asio::awaitable<void> digest_tensor(save_job& save, std::uint32_t tensor,
                                           tensor_digest& digest, result<void>& outcome);

}  // namespace ringload::inline v0::detail
