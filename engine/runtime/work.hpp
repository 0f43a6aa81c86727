// SPDX-License-Identifier: Apache-2.0
#pragma once

// Two interfaces that loads and saves implement. A `work` consists of steps that the workers of the
// engine (see worker.hpp) carry out. An `engine_user` is stopped when the engine closes.

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <optional>

#include "base/fault.hpp"

namespace ringload::inline v0::detail {

// A step of a `work`: its index, and the slot (I/O buffer) of the worker that carries out the step.
// `awaited` is true if a caller waits for the step.
struct work_step {
  std::uint32_t index;
  std::uint32_t slot;
  bool awaited;
};

// Work that is divided into steps: the reads or checks of a load, the writes of a save. All
// functions are called in the engine thread.
class work {
 public:
  struct offer {
    std::optional<std::uint32_t> step;  // Empty if no step can be taken now.
    // True if a step exists but must wait, because its drive has used up its share of workers.
    bool has_waiting_step = false;
  };

  // Takes a step for a worker. If `awaited` is true, takes only steps for which a caller waits. The
  // step is in progress until end() is called.
  virtual offer take_step(bool awaited) = 0;

  // Carries out a step. May change `step.slot`: the worker then owns the new slot instead. Must
  // return only when neither the kernel nor a device uses the slot `step.slot`. The caller must
  // keep `step` valid until the coroutine returns.
  virtual boost::asio::awaitable<void> run(work_step& step, result<void>& outcome) = 0;

  // Called after each step, with its result.
  virtual void end(std::uint32_t step, const result<void>& outcome) = 0;

 protected:
  ~work() = default;
};

// A load or a save that has not finished.
class engine_user {
 public:
  // Called when the loader is destroyed. Afterwards, work::take_step() must offer no step.
  virtual void stop_at_close() = 0;

 protected:
  ~engine_user() = default;
};

}  // namespace ringload::inline v0::detail
