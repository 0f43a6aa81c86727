// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reports the steps of a load to load_options::trace. If no trace is set, each function below is
// one branch. Engine thread only.

#include <cstdint>
#include <ringload/options.hpp>
#include <ringload/trace.hpp>
#include <string_view>

#include "base/work_interval.hpp"

namespace ringload::inline v0::detail {

// One step that takes time. The constructor records the request, end() reports the step.
class traced_step {
 public:
  traced_step(const load_options& options, load_step step,
              std::uint32_t slot = trace_event::none) noexcept
      : to_(options.trace), with_(options.trace_with) {
    if (to_) begin(step, slot);
  }

  explicit operator bool() const noexcept { return to_ != nullptr; }
  // For the code that does the work. Null: not traced.
  work_interval* times() noexcept { return to_ ? &times_ : nullptr; }
  // The work begins now, outside the threads of the loader.
  void starts() noexcept {
    if (to_) times_.begins();
  }
  void of_stream(std::uint32_t stream) noexcept { event_.stream = stream; }

  // The work has ended: at the time that its thread recorded, else now.
  void end(std::string_view tensor, std::uint64_t bytes) noexcept {
    if (to_) tell(tensor, bytes);
  }

 private:
  void begin(load_step step, std::uint32_t slot) noexcept;
  void tell(std::string_view tensor, std::uint64_t bytes) noexcept;

  const trace_function to_;
  void* const with_;
  trace_event event_;
  work_interval times_;
};

// Reports a step without duration.
inline void trace_moment(const load_options& options, load_step step, std::string_view tensor,
                         std::uint64_t bytes) noexcept {
  if (!options.trace) return;
  trace_event event;
  event.step = step;
  event.tensor = tensor;
  event.bytes = bytes;
  event.asked = event.begin = event.end = trace_event::clock::now();
  options.trace(event, options.trace_with);
}

}  // namespace ringload::inline v0::detail
