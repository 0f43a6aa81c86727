// SPDX-License-Identifier: Apache-2.0
#include "runtime/worker.hpp"

#include <new>
#include <utility>

namespace ringload::inline v0::detail {

boost::asio::awaitable<void> worker(schedule& steps, std::uint32_t slot) {
  const std::uint32_t own_slot = slot;
  for (;;) {
    schedule::turn turn;
    try {
      auto next = co_await steps.take();
      turn = std::move(next);
    } catch (const std::bad_alloc&) {
      continue;
    }
    if (!turn.owner) break;
    const work_step step = {turn.step, own_slot, turn.awaited};
    result<void> outcome;
    try {
      co_await turn.owner->run(step, outcome);
    } catch (const std::bad_alloc&) {
      // The fault names no file or tensor, because a string would need memory.
      outcome = fault{errc::memory_exceeded, {}};
    }
    turn.owner->end(turn.step, outcome);
  }
}

}  // namespace ringload::inline v0::detail
