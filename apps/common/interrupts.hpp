// SPDX-License-Identifier: Apache-2.0
#pragma once

// Handles the signals SIGINT (Ctrl-C), SIGTERM and SIGHUP. The first signal requests a clean
// shutdown. Commands poll for this request or wait for it. The second signal ends the process at
// once. The signal handler itself ends the process, because all threads, including the thread of an
// event loop, could be blocked.

#include <chrono>
#include <optional>
#include <stop_token>
#include <thread>

namespace ringload::tool {

/// Thrown after a clean shutdown was requested.
struct interrupted {
  int signal;
};

/// Installs the signal handlers. Must be called once, before the first thread is started.
void watch_for_interrupts();

/// Makes SIGHUP request a reload instead of a shutdown. Must be called after
/// watch_for_interrupts().
void watch_for_reloads();

/// Returns true if SIGHUP was received since the last call.
bool take_reload_request() noexcept;

/// Returns the number of the first signal, or 0 if no signal was received.
int interrupt_signal() noexcept;

/// Returns a file descriptor that becomes readable when the first signal is received, and stays
/// readable. The caller must not close the descriptor.
int interrupt_fd() noexcept;

/// Waits until a shutdown or a reload is requested, or until `time_max` is over. Without
/// `time_max`, the wait has no time limit.
void wait_for_signal(std::optional<std::chrono::milliseconds> time_max = std::nullopt);

void throw_if_interrupted();

/// Requests a stop of blocking calls when the first signal is received. Uses a thread. Must be
/// created after watch_for_interrupts().
class interrupt_stop {
 public:
  /// Throws `ringload::error` or `std::system_error`.
  interrupt_stop();
  interrupt_stop(const interrupt_stop&) = delete;
  interrupt_stop& operator=(const interrupt_stop&) = delete;
  ~interrupt_stop();

  std::stop_token token() const noexcept { return stop_.get_token(); }

 private:
  std::stop_source stop_;
  int end_fd_;  // Becomes readable when the thread must end.
  std::thread watcher_;
};

}  // namespace ringload::tool
