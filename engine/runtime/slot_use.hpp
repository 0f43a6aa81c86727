// SPDX-License-Identifier: Apache-2.0
#pragma once

// Prepares a worker's slot at its first use.

#include <boost/asio/awaitable.hpp>
#include <cstdint>

#include "base/work_interval.hpp"
#include "runtime/engine.hpp"

namespace ringload::inline v0::detail {

// Populates and pins the slot, unless the slot is ready. `outcome` receives the result. `times`, if
// not null, records when the work ran.
boost::asio::awaitable<void> prepare_slot(engine& e, std::uint32_t slot, result<void>& outcome,
                                          work_interval* times = nullptr);

}  // namespace ringload::inline v0::detail
