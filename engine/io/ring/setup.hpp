// SPDX-License-Identifier: Apache-2.0
#pragma once

// Creates an io_uring: tries setup flags until the kernel accepts them, and explains a refusal.

#include <liburing.h>

#include <string>

#include "base/fault.hpp"

namespace ringload::inline v0 {

struct ring_setup {
  bool deferred = false;  // IORING_SETUP_DEFER_TASKRUN: completions are posted only on request.
  std::string flags;      // "SINGLE_ISSUER, DEFER_TASKRUN, SUBMIT_ALL", for messages.
};

// Must be called in the thread that will use the ring, because SINGLE_ISSUER binds the ring to that
// thread. `entries` is the queue depth. Fails with errc::engine_unavailable.
result<ring_setup> set_up(::io_uring& ring, unsigned entries);

}  // namespace ringload::inline v0
