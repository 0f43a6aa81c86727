// SPDX-License-Identifier: Apache-2.0

#include "load/prefault.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>

#include "load/job.hpp"
#include "load/traced_step.hpp"
#include "runtime/engine.hpp"
#include "runtime/on_thread.hpp"
#include "runtime/spawn_owned.hpp"

namespace ringload::inline v0::detail {

namespace {

constexpr std::uint64_t prefault_bytes = std::uint64_t{8} << 20;

// Populates the arenas one after another, in steps of prefault_bytes. Each read also populates
// the memory that it writes. This is fast if the pages are already present.
boost::asio::awaitable<void> prefault_arenas(engine& e, std::shared_ptr<job> load) {
  const std::span<const std::shared_ptr<const tensor_storage>> arenas = load->arenas();
  for (const auto& storage : arenas) {
    if (!storage || storage->memory().populated()) continue;
    std::byte* const memory = storage->memory().data();
    const std::uint64_t bytes = storage->memory_bytes();
    for (std::uint64_t offset = 0; offset < bytes && load->needs_prefault();
         offset += prefault_bytes) {
      // A failure is ignored here. The read that needs the memory reports the failure.
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
  const auto make_coroutine = [&e](std::shared_ptr<job> handle) {
    return prefault_arenas(e, std::move(handle));
  };
  spawn_owned(e.loop, load.shared_from_this(), make_coroutine,
              [](job& ended) { ended.end_prefault(); });
}

}  // namespace ringload::inline v0::detail
