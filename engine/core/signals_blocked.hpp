// SPDX-License-Identifier: Apache-2.0
#pragma once

// The signals of a program belong to its own threads: those of the library, which are started while
// one of these lives, take none.

#include <pthread.h>
#include <signal.h>

namespace ringload::inline v0 {

class signals_blocked {
 public:
  signals_blocked() {
    ::sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  signals_blocked(const signals_blocked&) = delete;
  signals_blocked& operator=(const signals_blocked&) = delete;
  ~signals_blocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  ::sigset_t before_;
};

}  // namespace ringload::inline v0
