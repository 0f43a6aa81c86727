// SPDX-License-Identifier: Apache-2.0
#include "runtime/worker.hpp"

#include <new>
#include <utility>

#include "base/catch_as_fault.hpp"

namespace ringload::inline v0::detail {

boost::asio::awaitable<void> worker(schedule& steps, std::uint32_t slot) {
  std::uint32_t own_slot = slot;
  for (;;) {
    schedule::assignment assigned;
    try {
      auto next = co_await steps.take_step();
      assigned = std::move(next);
    } catch (const std::bad_alloc&) {
      continue;
    }
    if (!assigned.owner) break;
    work_step step = {assigned.step, own_slot, assigned.awaited};
    result<void> outcome;
    try {
      co_await assigned.owner->run(step, outcome);
    } catch (...) {
      // For std::bad_alloc, the fault names no file or tensor, because a string would need memory.
      outcome = catch_as_fault([]() -> result<void> { throw; });
    }
    own_slot = step.slot;
    assigned.owner->end(assigned.step, outcome);
  }
}

}  // namespace ringload::inline v0::detail
