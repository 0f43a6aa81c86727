// SPDX-License-Identifier: Apache-2.0

// The scheduler and the clock of the simulated world.

#include "world.hpp"

#include <pthread.h>
#include <unistd.h>

#include <cstdio>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "memory.hpp"
#include "power.hpp"
#include "scheduler.hpp"
#include "sockets.hpp"

namespace ringload::simulation {

namespace {

// A world has some 10,000 turns. A loop that never ends reaches this number within seconds.
constexpr std::uint64_t turns_max = 5'000'000;

struct turn_event {
  char kind = 0;
  std::uint64_t count = 0;
  std::function<void()> event;
};

struct simulated_world {
  world_settings settings;
  std::uint64_t generator = 0;
  std::int64_t time = 0;
  std::vector<std::unique_ptr<simulated_thread>> threads;
  int next_number = 0;
  std::multimap<std::int64_t, std::function<void()>> events;
  std::vector<turn_event> turn_events;
  std::uint64_t hash = 14695981039346656037ULL;
  std::uint64_t turns = 0;
  std::uint64_t hard_faults = 0;
  std::uint64_t operations = 0;
};

simulated_world* world = nullptr;

// Of this process.
std::uint64_t worlds_begun = 0;
std::uint64_t operations_begun = 0;

}  // namespace

thread_local simulated_thread* self = nullptr;

void record(char kind, std::uint64_t value) {
  if (++world->turns == turns_max) violation("the world does not end");
  for (const std::uint64_t each :
       {static_cast<std::uint64_t>(kind), value, static_cast<std::uint64_t>(world->time)}) {
    world->hash = (world->hash ^ each) * 1099511628211ULL;
  }
  if (world->settings.prints_trace) {
    std::printf("%lld %c %llu\n", static_cast<long long>(world->time), kind,
                static_cast<unsigned long long>(value));
  }
}

namespace {

void make_ready(simulated_thread& thread) {
  thread.state = simulated_thread::states::ready;
  thread.object = nullptr;
  thread.deadline = never;
}

void advance_time(std::int64_t to) {
  if (to > world->time) world->time = to;
  while (!world->events.empty() && world->events.begin()->first <= world->time) {
    auto node = world->events.extract(world->events.begin());
    node.mapped()();
  }
  for (const auto& thread : world->threads) {
    if (thread->state == simulated_thread::states::ended || thread->deadline > world->time)
      continue;
    thread->timed_out = true;
    make_ready(*thread);
  }
}

std::vector<simulated_thread*> ready_threads() {
  std::vector<simulated_thread*> ready;
  for (const auto& thread : world->threads) {
    if (thread->state == simulated_thread::states::ready) ready.push_back(thread.get());
  }
  return ready;
}

std::int64_t next_time() {
  std::int64_t next = world->events.empty() ? never : world->events.begin()->first;
  for (const auto& thread : world->threads) {
    if (thread->state != simulated_thread::states::ended) next = std::min(next, thread->deadline);
  }
  return next;
}

std::string waiting_threads() {
  std::string text;
  for (const auto& thread : world->threads) {
    if (thread->state == simulated_thread::states::ended) continue;
    text += " " + std::to_string(thread->number) +
            (thread->state == simulated_thread::states::polls ? " in epoll_wait," : " waits,");
  }
  return text;
}

}  // namespace

void reschedule() {
  const certain_memory simulation;
  simulated_thread* const me = self;
  advance_time(world->time + 20 + static_cast<std::int64_t>(random(200)));
  std::vector<simulated_thread*> ready = ready_threads();
  while (ready.empty()) {
    const std::int64_t next = next_time();
    if (next == never) violation("no thread can run:" + waiting_threads());
    advance_time(next);
    ready = ready_threads();
  }
  simulated_thread* const next = ready[random(ready.size())];
  record('>', static_cast<std::uint64_t>(next->number));
  if (next == me) return;
  if (me->state == simulated_thread::states::ended) {
    end_turn(*me, *next);
  } else {
    give_turn(*me, *next);
  }
}

void wait_for(const void* object, std::int64_t deadline) {
  self->state = simulated_thread::states::waits;
  self->object = object;
  self->deadline = deadline;
  self->timed_out = false;
  reschedule();
}

int wake(const void* object, int most) {
  const certain_memory simulation;
  std::vector<simulated_thread*> waiting;
  for (const auto& thread : world->threads) {
    if (thread->state == simulated_thread::states::waits && thread->object == object) {
      waiting.push_back(thread.get());
    }
  }
  int woken = 0;
  while (woken < most && !waiting.empty()) {
    const std::size_t chosen = random(waiting.size());
    make_ready(*waiting[chosen]);
    waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(chosen));
    ++woken;
  }
  return woken;
}

void begin(const world_settings& settings) {
  world = new simulated_world;
  ++worlds_begun;
  world->settings = settings;
  world->generator = settings.seed * 0x9E3779B97F4A7C15ULL + 0x1234567;
  auto first = std::make_unique<simulated_thread>();
  first->number = world->next_number++;
  first->handle = ::pthread_self();
  take_first_turn(*first);
  simulated_thread* const me = first.get();
  world->threads.push_back(std::move(first));
  begin_memory();
  begin_drive();
  begin_sockets();
  self = me;
}

void end() {
  for (const auto& thread : world->threads) {
    if (thread.get() != self && thread->state != simulated_thread::states::ended) {
      violation("a thread has not ended: " + waiting_threads());
    }
  }
  end_sockets();
  end_drive();
  self = nullptr;
  delete world;
  world = nullptr;
}

std::uint64_t random(std::uint64_t limit) {
  std::uint64_t value = world->generator += 0x9E3779B97F4A7C15ULL;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ULL;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBULL;
  return (value ^ (value >> 31)) % limit;
}

std::int64_t now() { return world->time; }
void pass(std::int64_t nanoseconds) { world->time += nanoseconds; }

int next_thread_number() { return world->next_number++; }

simulated_thread& add_thread(std::unique_ptr<simulated_thread> thread) {
  const certain_memory simulation;
  return *world->threads.emplace_back(std::move(thread));
}

simulated_thread* thread_of(pthread_t handle) {
  simulated_thread* found = nullptr;
  for (const auto& thread : world->threads) {
    if (!thread->joined && pthread_equal(thread->handle, handle) != 0) found = thread.get();
  }
  return found;
}

void call_at(std::int64_t time, std::function<void()> event) {
  const certain_memory simulation;
  world->events.emplace(time, std::move(event));
}

void call_at_turn(char kind, std::uint64_t count, std::function<void()> event) {
  const certain_memory simulation;
  world->turn_events.push_back({kind, count, std::move(event)});
}

namespace {

void call_turn_events(char kind) {
  const certain_memory simulation;
  std::vector<turn_event>& events = world->turn_events;
  std::vector<turn_event> due;
  for (std::size_t i = 0; i < events.size();) {
    if (events[i].kind != kind || --events[i].count > 0) {
      ++i;
      continue;
    }
    due.push_back(std::move(events[i]));
    events.erase(events.begin() + static_cast<std::ptrdiff_t>(i));
  }
  for (const turn_event& each : due) each.event();
}

}  // namespace

void turn(char kind) {
  record(kind, static_cast<std::uint64_t>(self->number));
  if (!world->turn_events.empty()) call_turn_events(kind);
  if (world->settings.power_cuts && random(1000) == 0) cut_power();
  if (self->no_turns == 0 && random(100) < world->settings.switch_percent) reschedule();
}

void sleep_for(std::int64_t nanoseconds) {
  wait_for(self, world->time + std::max<std::int64_t>(nanoseconds, 1));
}

void descriptors_changed() {
  for (const auto& thread : world->threads) {
    if (thread->state == simulated_thread::states::polls) make_ready(*thread);
  }
}

bool is_within() { return self != nullptr; }
const world_settings& settings() { return world->settings; }
std::uint64_t hard_faults() { return world->hard_faults; }
void count_hard_fault() { ++world->hard_faults; }

void count_operation() {
  ++world->operations;
  ++operations_begun;
}

std::uint64_t operations() { return world->operations; }
std::uint64_t trace_hash() { return world->hash; }
std::uint64_t turns() { return world->turns; }

std::size_t threads_alive() {
  std::size_t alive = 0;
  for (std::size_t i = 0; i < world->threads.size(); ++i) {
    simulated_thread* const thread = world->threads[i].get();
    if (thread->state == simulated_thread::states::ended) continue;
    // A detached thread ends soon.
    while (thread->detached && thread->state != simulated_thread::states::ended) sleep_for(1'000);
    if (thread->state != simulated_thread::states::ended) ++alive;
  }
  return alive;
}

void violation(const std::string& what) {
  const certain_memory simulation;
  if (!world) {
    std::fprintf(stderr, "violation outside of a world: %s\n", what.c_str());
    ::_exit(1);
  }
  std::fprintf(stderr,
               "violation in seed %llu, turn %llu: %s\n"
               "found after %llu worlds and %llu operations\n"
               "repeat: simulation --seed %llu%s\n",
               static_cast<unsigned long long>(world->settings.seed),
               static_cast<unsigned long long>(world->turns), what.c_str(),
               static_cast<unsigned long long>(worlds_begun),
               static_cast<unsigned long long>(operations_begun),
               static_cast<unsigned long long>(world->settings.seed),
               world->settings.options.c_str());
  std::fflush(nullptr);
  ::_exit(1);
}

}  // namespace ringload::simulation
