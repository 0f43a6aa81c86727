// SPDX-License-Identifier: Apache-2.0
#pragma once

// Creates an io_uring for class `ring`. Tries several sets of setup flags until the kernel accepts
// a set. If the kernel refuses all sets, explains the refusal.

#include <liburing.h>

#include <string>

#include "base/fault.hpp"

namespace ringload::inline v0 {

struct ring_setup {
  // True if the ring has the flag IORING_SETUP_DEFER_TASKRUN. The kernel then posts completions
  // only on request.
  bool deferred = false;
  std::string flags;  // For example "SINGLE_ISSUER, DEFER_TASKRUN, SUBMIT_ALL". For messages.
};

// Must be called in the thread that will use the ring, because SINGLE_ISSUER binds the ring to that
// thread. `entries` is the queue depth. Returns errc::engine_unavailable if no ring can be created.
result<ring_setup> set_up(::io_uring& ring, unsigned entries);

}  // namespace ringload::inline v0
