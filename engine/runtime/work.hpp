// SPDX-License-Identifier: Apache-2.0
#pragma once

// The engine knows its users by two interfaces: what its workers carry out, and what it must stop
// before it closes. Loads and saves implement both.

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <optional>

#include "base/fault.hpp"

namespace ringload::inline v0::detail {

// One step of some work, and the slot of the worker that carries it out.
struct work_step {
  std::uint32_t index;
  std::uint32_t slot;
  bool awaited;
};

// Steps that workers carry out: the reads of a load, its digests, the writes of a save. All
// functions are called in the engine thread.
class work {
 public:
  struct offer {
    std::optional<std::uint32_t> step;  // Empty: no step can be taken now.
    bool later = false;                 // A step exists, but its drive has no worker to spare.
  };

  // Takes the next step that somebody awaits, or the next step in order. A step that was taken is
  // in progress until end().
  virtual offer take(bool awaited) = 0;

  // Carries out a step. Returns only when neither the kernel nor a device uses the slot.
  virtual boost::asio::awaitable<void> run(work_step step, result<void>& outcome) = 0;

  // A step has ended.
  virtual void end(std::uint32_t step, const result<void>& outcome) = 0;

 protected:
  ~work() = default;
};

// A load or a save, until it is over.
class engine_user {
 public:
  // The loader is being destroyed: no further step may be taken.
  virtual void stop_at_close() = 0;

 protected:
  ~engine_user() = default;
};

}  // namespace ringload::inline v0::detail
