// SPDX-License-Identifier: Apache-2.0
#pragma once

// Tells load_options::trace of the steps of a load. Where that is not set, each of these functions
// is one branch. Engine thread only.

#include <cstdint>
#include <ringload/options.hpp>
#include <ringload/trace.hpp>
#include <string_view>

#include "base/work_interval.hpp"

namespace ringload::inline v0::detail {

// One step that takes time: asked for when this is made, told by end().
class traced_step {
 public:
  traced_step(const load_options& options, load_step step,
              std::uint32_t slot = trace_event::none) noexcept
      : to_(options.trace), with_(options.trace_with) {
    if (to_) begin(step, slot);
  }

  explicit operator bool() const noexcept { return to_ != nullptr; }
  // For whoever does the work; null: nobody wants to know.
  work_interval* times() noexcept { return to_ ? &times_ : nullptr; }
  // The work begins now, and no thread of ours does it.
  void starts() noexcept {
    if (to_) times_.begins();
  }
  void of_stream(std::uint32_t stream) noexcept { event_.stream = stream; }

  // The work has ended: when its thread said so, or now.
  void end(std::string_view tensor, std::uint64_t bytes) noexcept {
    if (to_) tell(tensor, bytes);
  }

 private:
  void begin(load_step what, std::uint32_t slot) noexcept;
  void tell(std::string_view tensor, std::uint64_t bytes) noexcept;

  const trace_function to_;
  void* const with_;
  trace_event event_;
  work_interval times_;
};

// Of a step that is a moment.
inline void trace_moment(const load_options& of, load_step what, std::string_view tensor,
                         std::uint64_t bytes) noexcept {
  if (!of.trace) return;
  trace_event event;
  event.step = what;
  event.tensor = tensor;
  event.bytes = bytes;
  event.asked = event.begin = event.end = trace_event::clock::now();
  of.trace(event, of.trace_with);
}

}  // namespace ringload::inline v0::detail
