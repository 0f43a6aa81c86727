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

// Populates the arenas in order, ahead of the reads. Reads also populate their own part, which is
// fast for populated pages. So a drive never waits for page faults.
boost::asio::awaitable<void> prefault_arenas(engine& e, std::shared_ptr<job> load) {
  const std::span<const std::shared_ptr<const tensor_storage>> arenas = load->arenas();
  for (const auto& storage : arenas) {
    if (!storage || storage->memory().populated()) continue;
    std::byte* const memory = storage->memory().data();
    const std::uint64_t bytes = storage->memory_bytes();
    for (std::uint64_t offset = 0; offset < bytes && load->needs_prefault();
         offset += prefault_bytes) {
      // Errors are ignored: the read that needs the memory reports them.
      populate_task work = {{memory + offset, std::min(prefault_bytes, bytes - offset)}, {}};
      traced_step step(load->options(), load_step::populated);
      co_await on_thread(*e.copy_threads, e.loop, work, step.times());
      step.end({}, work.memory.size());
    }
  }
}

}  // namespace

void begin_prefault(engine& e, job& load) {
  if (!load.begin_prefault()) return;
  // Out of memory, co_spawn may throw or destroy the coroutine silently. Both destroy the handle,
  // as the normal end of the coroutine does.
  const auto owner = load.shared_from_this();
  try {
    std::shared_ptr<job> handle(&load, [owner](job*) { owner->end_prefault(); });
    boost::asio::co_spawn(e.loop, prefault_arenas(e, std::move(handle)), boost::asio::detached);
  } catch (const std::bad_alloc&) {
    // The handle's deleter has called end_prefault().
  }
}

}  // namespace ringload::inline v0::detail
