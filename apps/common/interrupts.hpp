// SPDX-License-Identifier: Apache-2.0
#pragma once

// Handles the signals SIGINT (Ctrl-C), SIGTERM and SIGHUP. The first signal requests a clean
// shutdown. Commands poll for this request or wait for it. The second signal ends the process at
// once. The signal handler itself ends the process, because all threads, including the thread of an
// event loop, could be blocked.

#include <chrono>
#include <optional>

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

}  // namespace ringload::tool
