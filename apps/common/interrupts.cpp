// SPDX-License-Identifier: Apache-2.0
#include "interrupts.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <ringload/error.hpp>

namespace ringload::tool {

namespace {

// The signal handler writes this variable, in any thread.
std::atomic<int> first_signal = 0;
static_assert(std::atomic<int>::is_always_lock_free);

std::atomic<bool> reload_requested = false;
static_assert(std::atomic<bool>::is_always_lock_free);

// watch_for_interrupts() and watch_for_reloads() set these descriptors once. Afterwards they do not
// change.
int wake_fd = -1;
int reload_fd = -1;

int make_event() {
  const int event = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (event < 0) throw error({errno, boost::system::system_category()}, "eventfd", {});
  return event;
}

void on_signal(int signal) {
  const int keep = errno;
  int none = 0;
  if (!first_signal.compare_exchange_strong(none, signal)) ::_exit(128 + none);
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_fd, &one, sizeof one);
  errno = keep;
}

void on_reload(int) {
  const int keep = errno;
  reload_requested = true;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(reload_fd, &one, sizeof one);
  errno = keep;
}

}  // namespace

void watch_for_interrupts() {
  wake_fd = make_event();

  struct ::sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  // The handler is installed even if SIGINT was ignored, because shell scripts start background
  // jobs with SIGINT ignored.
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  // If SIGHUP is ignored, for example because of nohup, SIGHUP stays ignored.
  struct ::sigaction before = {};
  ::sigaction(SIGHUP, nullptr, &before);
  if (before.sa_handler != SIG_IGN) ::sigaction(SIGHUP, &action, nullptr);
}

void watch_for_reloads() {
  reload_fd = make_event();
  struct ::sigaction action = {};
  action.sa_handler = on_reload;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGHUP, &action, nullptr);
}

bool take_reload_request() noexcept {
  // The flag is cleared first. If another signal arrives between the two steps, the flag stays set
  // and the next wait ends at once. In the other order, the event could stay readable while the
  // flag is clear, and each wait would poll without pause.
  const bool is_requested = reload_requested.exchange(false);
  std::uint64_t count = 0;
  [[maybe_unused]] const auto drained = ::read(reload_fd, &count, sizeof count);
  return is_requested;
}

void wait_for_signal(std::optional<std::chrono::milliseconds> time_max) {
  ::pollfd events[] = {{wake_fd, POLLIN, 0}, {reload_fd, POLLIN, 0}};
  const auto limit = time_max ? static_cast<int>(time_max->count()) : -1;
  while (interrupt_signal() == 0 && !reload_requested) {
    if (::poll(events, 2, limit) == 0) return;
  }
}

int interrupt_signal() noexcept { return first_signal.load(); }

int interrupt_fd() noexcept { return wake_fd; }

void throw_if_interrupted() {
  if (const int signal = interrupt_signal(); signal != 0) throw interrupted{signal};
}

interrupt_stop::interrupt_stop() : end_fd_(make_event()) {
  try {
    watcher_ = std::thread([this] {
      ::pollfd events[] = {{wake_fd, POLLIN, 0}, {end_fd_, POLLIN, 0}};
      while (::poll(events, 2, -1) < 0) {
      }
      if (events[0].revents != 0) stop_.request_stop();
    });
  } catch (...) {
    ::close(end_fd_);
    throw;
  }
}

interrupt_stop::~interrupt_stop() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(end_fd_, &one, sizeof one);
  watcher_.join();
  ::close(end_fd_);
}

}  // namespace ringload::tool
