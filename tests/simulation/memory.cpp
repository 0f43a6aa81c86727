// SPDX-License-Identifier: Apache-2.0

// Defines operator new again, and aligned_alloc, from which Asio takes the frames of coroutines.

#include "memory.hpp"

#include <algorithm>
#include <cstdlib>
#include <new>

#include "scheduler.hpp"
#include "world.hpp"

namespace ringload::simulation {

namespace {

// After a failure, so many allocations of the thread succeed. Asio needs memory to destroy a
// coroutine that waits, and ends the process if that allocation fails too.
constexpr int successes_min = 20;

// The memory of small tensors is aligned to the cache line, and the engine splits reads at huge
// pages. Such memory begins at a huge page, so that the reads of a seed are the same in each run:
// otherwise the address depends on the real time at which earlier threads have ended.
constexpr std::size_t cache_line = 64;
constexpr std::size_t huge_page = std::size_t{2} << 20;

thread_local int successes_to_come = 0;
std::uint64_t failures = 0;
// The allocation that fails next, counted from now. 0: none is chosen.
std::uint64_t chosen_allocation = 0;

bool fails_now() noexcept {
  if (self == nullptr || certain_memory_depth > 0) return false;
  const unsigned rate = settings().faults.allocation;
  if (rate == 0) return false;
  if (chosen_allocation > 1) --chosen_allocation;
  if (successes_to_come > 0) {
    --successes_to_come;
    return false;
  }
  if (chosen_allocation == 1) {
    chosen_allocation = 0;
  } else if (!happens(rate)) {
    return false;
  }
  successes_to_come = successes_min;
  ++failures;
  count_hard_fault();
  const certain_memory simulation;
  record('!', static_cast<std::uint64_t>(self->number));
  return true;
}

}  // namespace

void begin_memory() {
  failures = 0;
  successes_to_come = 0;
  chosen_allocation = 0;
}

void fail_allocation_soon() {
  if (settings().faults.allocation == 0) return;
  chosen_allocation = 2 + random(std::uint64_t{16} << random(5));
}

std::uint64_t failed_allocations() { return failures; }

}  // namespace ringload::simulation

using ringload::simulation::cache_line;
using ringload::simulation::fails_now;
using ringload::simulation::huge_page;

// Not inlined: the compiler would see malloc and delete of the same memory.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  if (fails_now()) throw std::bad_alloc();
  if (void* const memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return fails_now() ? nullptr : std::malloc(bytes == 0 ? 1 : bytes);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}

extern "C" [[gnu::noinline]] void* aligned_alloc(std::size_t alignment,
                                                 std::size_t bytes) noexcept {
  void* memory = nullptr;
  const std::size_t stricter = alignment < cache_line ? alignment : std::max(alignment, huge_page);
  if (fails_now() || ::posix_memalign(&memory, stricter, bytes) != 0) return nullptr;
  return memory;
}
