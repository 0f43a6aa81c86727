// SPDX-License-Identifier: Apache-2.0
#include "load/prefault.hpp"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <cstdint>
#include <memory>
#include <new>

#include "load/job.hpp"
#include "load/traced_step.hpp"
#include "runtime/engine.hpp"
#include "runtime/on_thread.hpp"

namespace ringload::inline v0::detail {

namespace {

constexpr std::uint64_t prefault_bytes = std::uint64_t{8} << 20;

// Populates the arenas from their beginnings, ahead of the reads, which populate their own part and
// then find it done. So a drive never waits for page faults.
boost::asio::awaitable<void> prefault_arenas(engine& e, std::shared_ptr<job> of) {
  const std::span<const std::shared_ptr<const tensor_storage>> arenas = of->arenas();
  for (const auto& each : arenas) {
    if (!each || each->memory().populated()) continue;
    std::byte* const memory = each->memory().data();
    const std::uint64_t bytes = each->memory_bytes();
    for (std::uint64_t at = 0; at < bytes && of->needs_prefault(); at += prefault_bytes) {
      // Errors are ignored: the read that needs the memory reports them.
      populate_task work = {{memory + at, std::min(prefault_bytes, bytes - at)}, {}};
      traced_step step(of->options(), load_step::populated);
      co_await on_thread(*e.copy_threads, e.loop, work, step.times());
      step.end({}, work.memory.size());
    }
  }
}

}  // namespace

void begin_prefault(engine& e, job& of) {
  if (!of.begin_prefault()) return;
  // Out of memory, co_spawn may throw or destroy the coroutine silently. Either way its handle is
  // destroyed, as at its normal end.
  const auto mine = of.shared_from_this();
  try {
    std::shared_ptr<job> handle(&of, [mine](job*) { mine->end_prefault(); });
    boost::asio::co_spawn(e.loop, prefault_arenas(e, std::move(handle)), boost::asio::detached);
  } catch (const std::bad_alloc&) {
    // The handle's deleter has run.
  }
}

}  // namespace ringload::inline v0::detail
