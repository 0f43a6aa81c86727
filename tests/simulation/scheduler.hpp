// SPDX-License-Identifier: Apache-2.0
#pragma once

// The scheduler of the simulated world, for the functions of libc that threads.cpp defines.

#include <pthread.h>

#include <climits>
#include <cstdint>
#include <memory>

#include "turns.hpp"

namespace ringload::simulation {

inline constexpr std::int64_t never = INT64_MAX;

struct simulated_thread : thread_turn {
  enum class states { ready, waits, polls, ended };

  int number = 0;
  states state = states::ready;
  const void* object = nullptr;  // The thread waits for this mutex, condition, futex or thread.
  std::int64_t deadline = never;
  bool timed_out = false;
  unsigned no_turns = 0;  // Above 0, the thread keeps its turn while it can run.
  pthread_t handle = {};
  bool joined = false;
  bool detached = false;
  bool is_of_engine = false;  // True if the thread has the name that an engine gives to its thread.
};

// The thread of the world that calls. Null outside of a world.
extern thread_local simulated_thread* self;

// Adds an event to the trace.
void record(char kind, std::uint64_t value);

// Gives the turn to a thread that can run. Returns when the calling thread has the turn again.
void reschedule();

// Blocks the calling thread until the object wakes it, or until the time.
void wait_for(const void* object, std::int64_t deadline = never);

// Wakes up to `most` threads that wait for the object, in an order that the seed decides.
int wake(const void* object, int most = INT_MAX);

// A new thread, which gets its first turn from reschedule().
simulated_thread& add_thread(std::unique_ptr<simulated_thread> thread);
int next_thread_number();
simulated_thread* thread_of(pthread_t handle);

// The descriptor is closed: its timer, if it has one, ends. Defined in threads.cpp.
void end_timer(int fd);

// Time that passes when a thread looks at the clock.
void pass(std::int64_t nanoseconds);

}  // namespace ringload::simulation
