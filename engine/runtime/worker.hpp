// SPDX-License-Identifier: Apache-2.0
#pragma once

// A worker owns one slot and repeats: take the next step of the schedule, carry it out with the
// slot.
//
// A step ends only when neither the kernel nor a device uses the slot, cancelled or not. So the
// slot needs no reference count and no lock, and the number of workers bounds the reads in flight.

#include <boost/asio/awaitable.hpp>
#include <cstdint>

#include "runtime/schedule.hpp"

namespace ringload::inline v0::detail {

// Returns when the schedule is closed. `slot` is the worker's number where the steps need no slot.
boost::asio::awaitable<void> worker(schedule& steps, std::uint32_t slot);

}  // namespace ringload::inline v0::detail
