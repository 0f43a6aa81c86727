// SPDX-License-Identifier: Apache-2.0
#include "runtime/slot_use.hpp"

#include "base/catch_as_fault.hpp"
#include "runtime/on_thread.hpp"

namespace ringload::inline v0::detail {

namespace {

struct make_ready_task {
  engine& e;
  std::uint32_t slot;
  result<void> outcome;
  void operator()() noexcept {
    outcome = catch_as_fault([this] { return e.staging.make_ready(slot, e.devices); });
  }
};

}  // namespace

boost::asio::awaitable<void> prepare_slot(engine& e, std::uint32_t slot, result<void>& outcome,
                                          work_interval* times) {
  make_ready_task work = {e, slot, {}};
  if (!e.staging.is_ready(slot)) co_await on_thread(*work.e.copy_threads, work.e.loop, work, times);
  if (work.outcome) work.e.staging.register_with_ring(slot);
  outcome = work.outcome;
}

}  // namespace ringload::inline v0::detail
