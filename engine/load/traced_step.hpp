// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reports the steps of a load to the callback load_options::trace. Without a callback, each
// function costs one branch. Engine thread only.

#include <cstdint>
#include <ringload/options.hpp>
#include <ringload/trace.hpp>
#include <string_view>

#include "base/work_interval.hpp"

namespace ringload::inline v0::detail {

// A step with a duration. The constructor records when the step was requested. end() reports the
// step.
class traced_step {
 public:
  traced_step(const load_options& options, load_step step,
              std::uint32_t slot = trace_event::none) noexcept
      : callback_(options.trace), context_(options.trace_context) {
    if (callback_) begin(step, slot);
  }

  explicit operator bool() const noexcept { return callback_ != nullptr; }
  // Returns the object in which the working thread must record the times of its work. Returns null
  // if the load is not traced.
  work_interval* times() noexcept { return callback_ ? &times_ : nullptr; }
  // Records that the work begins now. Must be called if no thread of the loader does the work, for
  // example if the kernel reads, because no thread then writes to times().
  void start() noexcept {
    if (callback_) times_.record_begin();
  }
  void set_stream(std::uint32_t stream) noexcept { event_.stream = stream; }

  // Reports the step. The step ends at the time that the working thread recorded, or now if no time
  // was recorded.
  void end(std::string_view tensor, std::uint64_t bytes) noexcept {
    if (callback_) report(tensor, bytes);
  }

 private:
  void begin(load_step step, std::uint32_t slot) noexcept;
  void report(std::string_view tensor, std::uint64_t bytes) noexcept;

  const trace_function callback_;
  void* const context_;
  trace_event event_;
  work_interval times_;
};

inline void trace_moment(const load_options& options, load_step step, std::string_view tensor,
                         std::uint64_t bytes) noexcept {
  if (!options.trace) return;
  trace_event event;
  event.step = step;
  event.tensor = tensor;
  event.bytes = bytes;
  event.asked = event.begin = event.end = trace_event::clock::now();
  options.trace(event, options.trace_context);
}

}  // namespace ringload::inline v0::detail
