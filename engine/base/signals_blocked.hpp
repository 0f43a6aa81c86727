// SPDX-License-Identifier: Apache-2.0
#pragma once

// Blocks all signals in the calling thread while it exists. Library threads that are started
// meanwhile inherit the mask, so that only the program's own threads receive its signals.

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
