// SPDX-License-Identifier: Apache-2.0
#pragma once

// A simulated world for the engine. One seed decides the order of the threads, the time, and the
// answers of the kernel. The engine is the one that ships: this program defines the functions of
// libc and liburing that the engine calls, and the dynamic linker prefers these definitions.
//
// Only one thread runs at any time. At each call of such a function, the seed decides which thread
// runs next. So a seed repeats the same order of events, in a debug build and in a release build.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace ringload::simulation {

// The faults of a world, each as a number of calls in 10,000.
struct fault_rates {
  unsigned read_error = 0;      // EIO.
  unsigned short_read = 0;      // A part of the bytes, at least one.
  unsigned interrupted = 0;     // EINTR, and EAGAIN of the ring.
  unsigned write_error = 0;     // ENOSPC or EIO, also of fsync and rename.
  unsigned submission = 0;      // io_uring_submit takes no entry, or not all.
  unsigned thread_refused = 0;  // EAGAIN of pthread_create.
  unsigned allocation = 0;      // std::bad_alloc.
  unsigned socket_refused = 0;  // EMFILE of socket().
  unsigned server = 0;          // A server answers a request wrongly, or not at all.
  unsigned device_call = 0;     // A call of CUDA.

  bool any() const { return *this != fault_rates(); }
  bool operator==(const fault_rates&) const = default;
};

inline constexpr std::uint64_t slot_bytes = 64 * 1024;  // Of each loader.

struct world_settings {
  std::uint64_t seed = 0;
  unsigned switch_percent = 50;          // How often a call gives another thread its turn.
  std::int64_t latency_max = 1'000'000;  // Nanoseconds of a read or write.
  bool refuses_ring = false;             // io_uring_setup returns EPERM.
  bool refuses_deferred = false;         // A kernel before 6.1.
  unsigned processors = 2;               // The number that the program may use.
  unsigned slots = 4;                    // Of each loader.
  std::uint64_t bytes_in_flight = 0;     // Of each loader. 0: the loader tunes the limit.
  fault_rates faults;
  bool power_cuts = false;
  bool has_server = false;      // Clients load over HTTP too.
  bool mild_server = false;     // Repeated requests succeed, so operations must not fail.
  bool has_keeper = false;      // A keeper serves models to clients.
  unsigned devices = 0;         // GPUs.
  bool breaks_devices = false;  // A copy breaks all GPUs: every later call of CUDA fails.
  unsigned loops_max = 3;
  unsigned loaders_max = 2;
  unsigned clients_max = 4;
  unsigned operations_max = 8;  // That a client begins.
  bool prints_trace = false;
  std::string options;  // The options that repeat this world, beside --seed.
};

// The calling thread becomes the first thread of a new world.
void begin(const world_settings& settings);

// Ends the world. All other threads must have ended.
void end();

// ---- Within a world ----

// A number below `limit`. Decided by the seed.
std::uint64_t random(std::uint64_t limit);
inline bool happens(unsigned in_10_000) { return in_10_000 != 0 && random(10'000) < in_10_000; }

// Nanoseconds since the begin of the world.
std::int64_t now();

// Calls `event` at this time, in whichever thread runs then. The event must not block.
void call_at(std::int64_t time, std::function<void()> event);

// Another thread may run here. `kind` becomes a part of the trace.
void turn(char kind);

// Calls `event` at the `count`th turn of this kind from now on, in the thread that has the turn.
void call_at_turn(char kind, std::uint64_t count, std::function<void()> event);

// Blocks the calling thread for so many nanoseconds.
void sleep_for(std::int64_t nanoseconds);

// Descriptors may be readable now: threads in epoll_wait look again.
void descriptors_changed();

bool is_within();  // The calling thread is a thread of the world.
const world_settings& settings();
std::size_t threads_alive();

// The number of faults that an operation must report. EINTR and short reads are not counted.
std::uint64_t hard_faults();
void count_hard_fault();

void count_operation();
std::uint64_t operations();  // Of this world.

std::uint64_t trace_hash();  // Differs if the order of events differs.
std::uint64_t turns();

// Prints what is wrong and the command that repeats it, and ends the process with exit code 1.
[[noreturn]] void violation(const std::string& what);

// ---- drive.cpp ----

void begin_drive();
void end_drive();
std::uint64_t reads_and_writes();

}  // namespace ringload::simulation
