// SPDX-License-Identifier: Apache-2.0
#pragma once

// Carries out one read of a load: reads into the slot or straight to the destination, copies the
// slot out, decodes compressed streams.

#include <boost/asio/awaitable.hpp>

#include "core/fault.hpp"
#include "pipeline/work.hpp"

namespace ringload::inline v0::detail {

class job;

// Returns only when neither the kernel nor a device uses the slot, cancelled or not.
boost::asio::awaitable<void> process_read(job& load, work_step step, result<void>& outcome);

}  // namespace ringload::inline v0::detail
