// SPDX-License-Identifier: Apache-2.0
#pragma once

// Carries out one write of a save: fills the slot from the tensors, or takes a tensor's memory as
// it is, and writes that.

#include <boost/asio/awaitable.hpp>

#include "core/fault.hpp"
#include "pipeline/work.hpp"

namespace ringload::inline v0::detail {

class save_job;

// Returns only when neither the kernel nor a copy uses the slot or the tensors.
boost::asio::awaitable<void> write_block(save_job& save, work_step step, result<void>& outcome);

}  // namespace ringload::inline v0::detail
