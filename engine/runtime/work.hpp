// SPDX-License-Identifier: Apache-2.0
#pragma once

// Two interfaces that loads and saves implement: steps for the workers of the engine, and the stop
// before the engine closes.

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <optional>

#include "base/fault.hpp"

namespace ringload::inline v0::detail {

// One step of a `work`, and the slot of the worker that carries out the step.
struct work_step {
  std::uint32_t index;
  std::uint32_t slot;
  bool awaited;
};

// Steps that workers carry out: the reads of a load, the digests of a load, the writes of a save.
// All functions are called in the engine thread.
class work {
 public:
  struct offer {
    std::optional<std::uint32_t> step;  // Empty: no step can be taken at present.
    bool later = false;                 // A step exists, but its drive has no free worker.
  };

  // Takes the next awaited step, or the next step in order. A taken step is in progress until
  // end().
  virtual offer take(bool awaited) = 0;

  // Carries out a step. Must return only when neither the kernel nor a device uses the slot.
  virtual boost::asio::awaitable<void> run(work_step step, result<void>& outcome) = 0;

  // A step has ended.
  virtual void end(std::uint32_t step, const result<void>& outcome) = 0;

 protected:
  ~work() = default;
};

// A load or a save that is not over.
class engine_user {
 public:
  // Called when the loader is destroyed. No further step may be taken.
  virtual void stop_at_close() = 0;

 protected:
  ~engine_user() = default;
};

}  // namespace ringload::inline v0::detail
