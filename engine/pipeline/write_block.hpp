// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a worker does with a write of a save: fills its slot from the tensors, or takes a tensor's
// memory as it is, and writes that.

#include <boost/asio/awaitable.hpp>
#include <cstdint>

#include "pipeline/engine.hpp"
#include "pipeline/schedule.hpp"

namespace ringload::inline v0::detail {

// `turn` is a save's. Completes when neither the kernel nor a copy uses the slot or the tensors any
// more.
boost::asio::awaitable<void> write_block(engine& e, std::uint32_t slot, const schedule::turn& turn,
                                         result<void>& outcome);

}  // namespace ringload::inline v0::detail
