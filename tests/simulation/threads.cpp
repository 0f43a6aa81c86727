// SPDX-License-Identifier: Apache-2.0

// The functions of libc that create threads, wait, and tell the time. Within a world, the scheduler
// decides what they do.

#include <dlfcn.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "memory.hpp"
#include "real_functions.hpp"
#include "scheduler.hpp"
#include "world.hpp"

using namespace ringload::simulation;

namespace {

std::set<const pthread_once_t*> once_in_progress;

struct thread_start {
  void* (*function)(void*);
  void* argument;
  simulated_thread* thread;
  parked_thread parked;
};

void* run_thread(void* start) {
  const std::unique_ptr<thread_start> own(static_cast<thread_start*>(start));
  self = own->thread;
  wait_for_first_turn(*self);
  void* const result = own->function(own->argument);
  turn('E');
  self->state = simulated_thread::states::ended;
  wake(self);
  reschedule();
  self = nullptr;
  return result;
}

std::int64_t nanoseconds(const timespec& time) {
  return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

int wait_for_condition(pthread_cond_t* condition, pthread_mutex_t* mutex, std::int64_t deadline) {
  REAL(pthread_mutex_unlock)(mutex);
  wake(mutex);
  self->timed_out = false;
  // POSIX allows a wait that ends without a signal.
  if (random(50) != 0) wait_for(condition, deadline);
  const bool timed_out = self->timed_out;
  ::pthread_mutex_lock(mutex);
  return timed_out ? ETIMEDOUT : 0;
}

// What the clocks show at the begin of a world.
constexpr std::int64_t steady_begin = 1'000'000'000'000;
constexpr std::int64_t calendar_begin = 1'790'000'000'000'000'000;

std::int64_t clock_begin(clockid_t clock) {
  return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE ? calendar_begin : steady_begin;
}

// Descriptors of timers, each with the number of its last setting. A timer is an eventfd that an
// event of the world makes readable.
std::map<int, std::uint64_t> timers;
std::uint64_t timer_settings = 0;

// Asio sets this time if no timer waits.
constexpr std::int64_t no_timer = 300'000'000'000;

void fire_timer(int fd, std::uint64_t setting) {
  const auto timer = timers.find(fd);
  if (timer == timers.end() || timer->second != setting) return;
  const std::uint64_t count = 1;
  if (REAL(write)(fd, &count, sizeof count) < 0) violation("the eventfd of a timer is closed");
  descriptors_changed();
}

}  // namespace

// Seeds of random numbers, such as those of the delays between two requests.
std::random_device::result_type std::random_device::_M_getval() {
  return self ? static_cast<result_type>(ringload::simulation::random(UINT32_MAX)) : 1;
}

void ringload::simulation::end_timer(int fd) { timers.erase(fd); }

// The definitions below have the names and types that libc declares.
extern "C" {

int pthread_create(pthread_t* handle, const pthread_attr_t* attributes, void* (*function)(void*),
                   void* argument) {
  if (!self) return REAL(pthread_create)(handle, attributes, function, argument);
  turn('c');
  const certain_memory simulation;
  if (happens(settings().faults.thread_refused)) {
    count_hard_fault();
    return EAGAIN;
  }
  auto thread = std::make_unique<simulated_thread>();
  thread->number = next_thread_number();
  auto start = std::make_unique<thread_start>(function, argument, thread.get());
  thread->parked = &start->parked;
  const int refused = REAL(pthread_create)(handle, attributes, run_thread, start.get());
  if (refused != 0) return refused;
  (void)start.release();
  thread->handle = *handle;
  add_thread(std::move(thread));
  turn('C');
  return 0;
}

int pthread_join(pthread_t handle, void** result) {
  if (!self) return REAL(pthread_join)(handle, result);
  simulated_thread* const target = thread_of(handle);
  if (!target) violation("pthread_join of an unknown thread");
  while (target->state != simulated_thread::states::ended) wait_for(target);
  target->joined = true;
  return REAL(pthread_join)(handle, result);
}

int pthread_detach(pthread_t handle) {
  if (self) {
    simulated_thread* const target = thread_of(handle);
    if (!target) violation("pthread_detach of an unknown thread");
    // A loader stops waiting for its thread only after a time limit.
    const bool is_unawaited = target->is_of_engine && !self->timed_out;
    if (is_unawaited) violation("the thread of an engine is not joined, but detached");
    target->joined = target->detached = true;
  }
  return REAL(pthread_detach)(handle);
}

int pthread_setname_np(pthread_t handle, const char* name) {
  if (self && name == std::string_view("ringload")) self->is_of_engine = true;
  return REAL(pthread_setname_np)(handle, name);
}

int pthread_mutex_lock(pthread_mutex_t* mutex) {
  if (!self) return REAL(pthread_mutex_lock)(mutex);
  turn('l');
  for (;;) {
    const int refused = REAL(pthread_mutex_trylock)(mutex);
    if (refused != EBUSY) return refused;
    wait_for(mutex);
  }
}

int pthread_mutex_trylock(pthread_mutex_t* mutex) {
  if (self) turn('t');
  return REAL(pthread_mutex_trylock)(mutex);
}

int pthread_mutex_unlock(pthread_mutex_t* mutex) {
  const int result = REAL(pthread_mutex_unlock)(mutex);
  if (self) {
    wake(mutex);
    turn('u');
  }
  return result;
}

int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const timespec* until) {
  if (!self) return REAL(pthread_cond_clockwait)(condition, mutex, clock, until);
  return wait_for_condition(condition, mutex, nanoseconds(*until) - clock_begin(clock));
}

int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  if (!self) return REAL_OF(pthread_cond_wait, "GLIBC_2.3.2")(condition, mutex);
  return wait_for_condition(condition, mutex, never);
}

int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                           const timespec* until) {
  if (!self) return REAL_OF(pthread_cond_timedwait, "GLIBC_2.3.2")(condition, mutex, until);
  return wait_for_condition(condition, mutex, nanoseconds(*until) - calendar_begin);
}

int pthread_cond_signal(pthread_cond_t* condition) noexcept {
  if (!self) return REAL_OF(pthread_cond_signal, "GLIBC_2.3.2")(condition);
  wake(condition, 1);
  turn('s');
  return 0;
}

int pthread_cond_broadcast(pthread_cond_t* condition) noexcept {
  if (!self) return REAL_OF(pthread_cond_broadcast, "GLIBC_2.3.2")(condition);
  wake(condition);
  turn('b');
  return 0;
}

int pthread_once(pthread_once_t* once, void (*function)()) {
  if (!self) return REAL(pthread_once)(once, function);
  while (once_in_progress.contains(once)) wait_for(once);
  struct progress {
    const pthread_once_t* once;
    ~progress() {
      const certain_memory simulation;
      once_in_progress.erase(once);
      wake(once);
    }
  };
  {
    const certain_memory simulation;
    once_in_progress.insert(once);
  }
  const progress running{once};
  return REAL(pthread_once)(once, function);
}

// A static local variable is initialised without a change of threads.
int __cxa_guard_acquire(std::int64_t* guard) {
  const int must_initialise = REAL(__cxa_guard_acquire)(guard);
  if (self && must_initialise != 0) ++self->no_turns;
  return must_initialise;
}

void __cxa_guard_release(std::int64_t* guard) noexcept {
  REAL(__cxa_guard_release)(guard);
  if (self) --self->no_turns;
}

void __cxa_guard_abort(std::int64_t* guard) noexcept {
  REAL(__cxa_guard_abort)(guard);
  if (self) --self->no_turns;
}

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  if (!self) return REAL(clock_gettime)(clock, time);
  // Time passes between two looks at the clock, so a loop that waits for a time ends.
  pass(15);
  const std::int64_t at = clock_begin(clock) + now();
  time->tv_sec = at / 1'000'000'000;
  time->tv_nsec = at % 1'000'000'000;
  return 0;
}

// The number of processors is a property of the world.
int get_nprocs() noexcept {
  return self ? static_cast<int>(settings().processors) : REAL(get_nprocs)();
}

int sched_getaffinity(pid_t process, std::size_t bytes, cpu_set_t* processors) noexcept {
  if (!self) return REAL(sched_getaffinity)(process, bytes, processors);
  CPU_ZERO_S(bytes, processors);
  for (unsigned i = 0; i < settings().processors; ++i) CPU_SET_S(i, bytes, processors);
  return 0;
}

int sched_setaffinity(pid_t process, std::size_t bytes, const cpu_set_t* processors) noexcept {
  return self ? 0 : REAL(sched_setaffinity)(process, bytes, processors);
}

// Temporary names have the number of the process.
pid_t getpid() noexcept { return self ? 4711 : REAL(getpid)(); }
int kill(pid_t process, int signal) noexcept {
  return self && process == 4711 && signal == 0 ? 0 : REAL(kill)(process, signal);
}

// One thread may have the turns of all, and Ctrl-C must end the program.
int pthread_sigmask(int action, const sigset_t* signals, sigset_t* before) noexcept {
  return REAL(pthread_sigmask)(action, self ? nullptr : signals, before);
}

int sched_yield() noexcept {
  if (!self) return REAL(sched_yield)();
  record('y', static_cast<std::uint64_t>(self->number));
  reschedule();
  return 0;
}

int clock_nanosleep(clockid_t clock, int flags, const timespec* time, timespec* left) {
  if (!self) return REAL(clock_nanosleep)(clock, flags, time, left);
  const bool absolute = (flags & TIMER_ABSTIME) != 0;
  sleep_for(nanoseconds(*time) - (absolute ? clock_begin(clock) + now() : 0));
  return 0;
}

int nanosleep(const timespec* time, timespec* left) {
  if (!self) return REAL(nanosleep)(time, left);
  sleep_for(nanoseconds(*time));
  return 0;
}

int timerfd_create(int clock, int flags) noexcept {
  if (!self) return REAL(timerfd_create)(clock, flags);
  const certain_memory simulation;
  const int fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fd >= 0) timers[fd] = 0;
  return fd;
}

int timerfd_settime(int fd, int flags, const itimerspec* setting, itimerspec* before) noexcept {
  if (!self) return REAL(timerfd_settime)(fd, flags, setting, before);
  const certain_memory simulation;
  if (before) *before = {};
  std::uint64_t expired = 0;
  (void)!::read(fd, &expired, sizeof expired);
  const std::uint64_t number = ++timer_settings;
  timers[fd] = number;
  const bool is_absolute = (flags & TFD_TIMER_ABSTIME) != 0;
  const std::int64_t time = nanoseconds(setting->it_value);
  if (!is_absolute && time >= no_timer) return 0;
  call_at(is_absolute ? time - steady_begin : now() + time,
          [fd, number] { fire_timer(fd, number); });
  return 0;
}

int epoll_wait(int descriptor, epoll_event* events, int most, int limit_ms) {
  if (!self) return REAL(epoll_wait)(descriptor, events, most, limit_ms);
  turn('e');
  const std::int64_t deadline = limit_ms < 0 ? never : now() + std::int64_t{limit_ms} * 1'000'000;
  for (;;) {
    const int count = REAL(epoll_wait)(descriptor, events, most, 0);
    if (count != 0 || now() >= deadline) return count;
    self->state = simulated_thread::states::polls;
    self->deadline = deadline;
    reschedule();
  }
}

int epoll_ctl(int descriptor, int operation, int target, epoll_event* event) noexcept {
  const int result = REAL(epoll_ctl)(descriptor, operation, target, event);
  if (self) {
    const int kept = errno;
    descriptors_changed();
    errno = kept;
  }
  return result;
}

ssize_t write(int descriptor, const void* bytes, std::size_t count) {
  const ssize_t result = REAL(write)(descriptor, bytes, count);
  if (self) {
    const int kept = errno;
    descriptors_changed();
    turn('w');
    errno = kept;
  }
  return result;
}

// libstdc++ waits by futexes for futures and atomics.
long syscall(long number, ...) noexcept {
  std::va_list list;
  va_start(list, number);
  long arguments[6];
  for (long& each : arguments) each = va_arg(list, long);
  va_end(list);
  if (self && number == SYS_futex) {
    const auto* const word = reinterpret_cast<const std::atomic<int>*>(arguments[0]);
    const int operation = static_cast<int>(arguments[1]) & FUTEX_CMD_MASK;
    const auto* const until = reinterpret_cast<const timespec*>(arguments[3]);
    if (operation == FUTEX_WAKE || operation == FUTEX_WAKE_BITSET) {
      const int woken = wake(word, static_cast<int>(arguments[2]));
      turn('f');
      return woken;
    }
    turn('F');
    if (word->load() != static_cast<int>(arguments[2])) {
      errno = EAGAIN;
      return -1;
    }
    std::int64_t deadline = never;
    if (until && operation == FUTEX_WAIT) deadline = now() + nanoseconds(*until);
    if (until && operation == FUTEX_WAIT_BITSET) {
      const bool calendar = (arguments[1] & FUTEX_CLOCK_REALTIME) != 0;
      deadline = nanoseconds(*until) - (calendar ? calendar_begin : steady_begin);
    }
    wait_for(word, deadline);
    if (!self->timed_out) return 0;
    errno = ETIMEDOUT;
    return -1;
  }
  if (self && number == cachestat_number) return simulated_cachestat(arguments);
  return REAL(syscall)(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4],
                       arguments[5]);
}

}  // extern "C"
