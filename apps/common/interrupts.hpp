// SPDX-License-Identifier: Apache-2.0
#pragma once

// Ctrl-C. The first SIGINT, SIGTERM or SIGHUP requests a clean shutdown, which commands poll for or
// wait for. The second ends the process at once, whatever its threads do; so this is a plain signal
// handler, not one that runs in an event loop.

namespace ringload::tool {

/// Thrown once a clean shutdown was requested.
struct interrupted {
  int signal;
};

/// Call once, before any thread is started.
void watch_for_interrupts();

/// The first signal; 0: none yet.
int interrupt_signal() noexcept;

/// Becomes readable, and stays so, when the first signal comes. Owned by the process.
int interrupt_fd() noexcept;

void throw_if_interrupted();

}  // namespace ringload::tool
