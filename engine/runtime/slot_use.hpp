// SPDX-License-Identifier: Apache-2.0
#pragma once

// A worker's slot gets its memory at its first use.

#include <boost/asio/awaitable.hpp>
#include <cstdint>

#include "base/work_interval.hpp"
#include "runtime/engine.hpp"

namespace ringload::inline v0::detail {

// Populates and pins the slot, unless that was done. `outcome` says why it failed; `times`, if not
// null, when it was done.
boost::asio::awaitable<void> prepare_slot(engine& e, std::uint32_t slot, result<void>& outcome,
                                          work_interval* times = nullptr);

}  // namespace ringload::inline v0::detail
