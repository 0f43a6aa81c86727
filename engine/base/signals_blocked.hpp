// SPDX-License-Identifier: Apache-2.0
#pragma once

// Blocks all signals in the calling thread while the object exists. Threads that the library starts
// during this time inherit the signal mask. Therefore only threads of the program receive signals.

#include <pthread.h>
#include <signal.h>

namespace ringload::inline v0 {

class signals_blocked {
 public:
  signals_blocked() {
    ::sigset_t all_signals;
    ::sigfillset(&all_signals);
    ::pthread_sigmask(SIG_SETMASK, &all_signals, &before_);
  }
  signals_blocked(const signals_blocked&) = delete;
  signals_blocked& operator=(const signals_blocked&) = delete;
  ~signals_blocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  ::sigset_t before_;
};

}  // namespace ringload::inline v0
