// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>

#include "base/work_interval.hpp"
#include "runtime/engine.hpp"

namespace ringload::inline v0::detail {

// Prepares the slot (I/O buffer) of a worker at its first use. Populates and pins the slot in a
// copy thread, unless the slot is ready. Then registers the slot with io_uring. Stores the result
// in `outcome`. If `times` is not null, `times` receives the start and the end of the work.
boost::asio::awaitable<void> prepare_slot(engine& e, std::uint32_t slot, result<void>& outcome,
                                          work_interval* times = nullptr);

}  // namespace ringload::inline v0::detail
