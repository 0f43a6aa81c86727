// SPDX-License-Identifier: Apache-2.0
#include "interrupts.hpp"

#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <ringload/error.hpp>

namespace ringload::tool {

namespace {

// Written by the signal handler, in any thread.
std::atomic<int> first_signal = 0;
static_assert(std::atomic<int>::is_always_lock_free);

// Set by watch_for_interrupts() and never changed.
int wake_fd = -1;

void on_signal(int signal) {
  const int keep = errno;
  int none = 0;
  if (!first_signal.compare_exchange_strong(none, signal)) ::_exit(128 + none);
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_fd, &one, sizeof one);
  errno = keep;
}

}  // namespace

void watch_for_interrupts() {
  wake_fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_fd < 0) throw error({errno, boost::system::system_category()}, "eventfd", {});

  struct ::sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  // Handled even if ignored before: a shell script starts background jobs with SIGINT ignored.
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  // Under nohup SIGHUP stays ignored.
  struct ::sigaction before = {};
  ::sigaction(SIGHUP, nullptr, &before);
  if (before.sa_handler != SIG_IGN) ::sigaction(SIGHUP, &action, nullptr);
}

int interrupt_signal() noexcept { return first_signal.load(); }

int interrupt_fd() noexcept { return wake_fd; }

void throw_if_interrupted() {
  if (const int signal = interrupt_signal(); signal != 0) throw interrupted{signal};
}

}  // namespace ringload::tool
