// SPDX-License-Identifier: Apache-2.0
#pragma once

// Passes the turn from one thread of the world to another. By default, the first thread of the
// process executes the turns of all threads: it switches to the registers, the stack and the
// thread-local variables of another thread, which takes some nanoseconds. The other OS threads only
// wait until their function has returned. With separate threads, which a debugger can show, each OS
// thread executes its own turns. The order of events is the same. If the kernel does not allow a
// program to set the register FS, the threads are always separate.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace ringload::simulation {

// The stack on which an OS thread waits while the first thread executes its function.
struct parked_thread {
  std::atomic<int> is_parked = 0;    // A futex.
  std::atomic<int> is_released = 0;  // A futex.
  void* stack_pointer = nullptr;     // Set by end_turn().
  alignas(16) std::array<std::byte, 16384> stack;
};

struct thread_turn {
  std::atomic<int> turn = 0;        // A futex of a separate thread: 1 if the thread may run.
  void* stack_pointer = nullptr;    // Valid while another thread has the turn.
  std::uint64_t fs_base = 0;        // The register FS, the base of thread-local variables.
  parked_thread* parked = nullptr;  // Set by the creator. Null for the first thread of the world.
};

// After this call, each OS thread executes its own turns. Must not be called within a world.
void use_separate_threads();

// Makes the calling thread the first thread of a world, which has the turn.
void take_first_turn(thread_turn& first);

// Must be called by a new thread. Returns when the thread has its first turn. `own.parked` must
// exist until the thread ends.
void wait_for_first_turn(thread_turn& own);

// Gives the turn to `next`. Returns when the calling thread has the turn again.
void give_turn(thread_turn& own, thread_turn& next);

// Ends the last turn of the calling thread, and gives the turn to `next`. `own` may be destroyed
// before this function returns. The first thread of a world must not call this function.
void end_turn(thread_turn& own, thread_turn& next);

}  // namespace ringload::simulation
