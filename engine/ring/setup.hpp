// SPDX-License-Identifier: Apache-2.0
#pragma once

// Making an io_uring: which flags this kernel takes is found out by asking for them, and a refusal
// is put in words that a person can act on.

#include <liburing.h>

#include <string>

#include "core/fault.hpp"

namespace ringload::inline v0 {

struct ring_setup {
  bool deferred = false;  // IORING_SETUP_DEFER_TASKRUN: completions come only when asked for.
  std::string flags;      // "SINGLE_ISSUER, DEFER_TASKRUN, SUBMIT_ALL", for people.
};

// To be called in the thread that will use the ring: with SINGLE_ISSUER it belongs to that thread.
// `entries` reads fit in the ring at once. Fails with errc::engine_unavailable.
result<ring_setup> set_up(::io_uring& ring, unsigned entries);

}  // namespace ringload::inline v0
