// SPDX-License-Identifier: Apache-2.0
#pragma once

// Ctrl-C. The first SIGINT, SIGTERM or SIGHUP asks for an orderly end, which a command may poll for
// or wait for. The second ends the process at once, whatever any thread of it is doing; that is why
// this is a signal handler of our own, and not one that waits for an event loop to come round.

namespace ringload::tool {

/// Thrown where the orderly end has begun.
struct interrupted {
  int signal;
};

/// Call once, before any thread is started.
void watch_for_interrupts();

/// The signal that came first; 0 while none has.
int interrupt_signal() noexcept;

/// Becomes readable, and stays so, when the first signal comes. Owned by the process.
int interrupt_fd() noexcept;

void throw_if_interrupted();

}  // namespace ringload::tool
