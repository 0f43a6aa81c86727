// SPDX-License-Identifier: Apache-2.0
#pragma once

// A worker is a coroutine that repeatedly takes a step from a schedule and carries out the step. A
// worker for reads and writes owns one slot (I/O buffer). A worker for checks has no slot. If a
// late read is issued again and another read than the first wins, the worker exchanges its slot for
// the slot of the winner (see second_reads.hpp).
//
// Even after a cancellation, a step ends only when neither the kernel nor a device uses the slot.
// Therefore the slot needs no reference count and no lock. The number of workers limits the reads
// in flight.

#include <boost/asio/awaitable.hpp>
#include <cstdint>

#include "runtime/schedule.hpp"

namespace ringload::inline v0::detail {

// Runs until the schedule is closed. Steps that need no slot ignore `slot`.
boost::asio::awaitable<void> worker(schedule& steps, std::uint32_t slot);

}  // namespace ringload::inline v0::detail
