// SPDX-License-Identifier: Apache-2.0
#pragma once

// Gives the turn from one thread of the world to another. By default, the first thread of the
// process executes the turns of all threads: it exchanges its registers, its stack and its
// thread-local variables for those of another thread, which takes some nanoseconds. The other
// threads of the kernel only wait until their function has returned. With separate threads, which a
// debugger can show, each thread executes its own turns, and the order of events is the same.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace ringload::simulation {

// The thread of the kernel waits on this stack until another thread has executed its function.
struct parked_thread {
  std::atomic<int> is_parked = 0;    // A futex.
  std::atomic<int> is_released = 0;  // A futex.
  void* stack_pointer = nullptr;     // Where the function has returned.
  alignas(16) std::array<std::byte, 16384> stack;
};

struct turn_holder {
  std::atomic<int> turn = 0;        // A futex of a separate thread: 1 if the thread may run.
  void* stack_pointer = nullptr;    // While another thread has the turn.
  std::uint64_t thread_base = 0;    // The register FS, which finds thread-local variables.
  parked_thread* parked = nullptr;  // Null for the first thread of the world.
};

// From now on, each thread executes its own turns. Must not be called within a world.
void use_separate_threads();

// Makes the calling thread the first thread of a world, which has the turn.
void take_first_turn(turn_holder& first);

// Must be called by a new thread. Returns when the thread has its first turn. `parked` must exist
// until the thread ends.
void wait_for_first_turn(turn_holder& own, parked_thread& parked);

// Returns when the calling thread has the turn again.
void give_turn(turn_holder& own, turn_holder& next);

// The last turn of the calling thread. `own` may be destroyed before this function returns.
void end_turn(turn_holder& own, turn_holder& next);

}  // namespace ringload::simulation
