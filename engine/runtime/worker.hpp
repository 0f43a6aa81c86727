// SPDX-License-Identifier: Apache-2.0
#pragma once

// A worker owns one slot. It takes the next step of the schedule, carries out the step with the
// slot, and repeats.
//
// A step ends only when neither the kernel nor a device uses the slot, even after cancellation. So
// the slot needs no reference count and no lock. The number of workers bounds the reads in flight.

#include <boost/asio/awaitable.hpp>
#include <cstdint>

#include "runtime/schedule.hpp"

namespace ringload::inline v0::detail {

// Returns when the schedule is closed. If the steps need no slot, `slot` is the worker's number.
boost::asio::awaitable<void> worker(schedule& steps, std::uint32_t slot);

}  // namespace ringload::inline v0::detail
