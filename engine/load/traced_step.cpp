// SPDX-License-Identifier: Apache-2.0
#include "load/traced_step.hpp"

namespace ringload::inline v0 {

std::string_view name(load_step step) noexcept {
  switch (step) {
    case load_step::opened: return "opened";
    case load_step::planned: return "planned";
    case load_step::populated: return "populated";
    case load_step::read: return "read";
    case load_step::decoded: return "decoded";
    case load_step::copied: return "copied";
    case load_step::landed: return "landed";
    case load_step::handed_out: return "handed out";
  }
  return "";
}

namespace detail {

void traced_step::begin(load_step step, std::uint32_t slot) noexcept {
  event_.step = step;
  event_.slot = slot;
  event_.asked = trace_event::clock::now();
}

void traced_step::report(std::string_view tensor, std::uint64_t bytes) noexcept {
  constexpr trace_event::clock::time_point unknown;
  event_.tensor = tensor;
  event_.bytes = bytes;
  event_.thread = times_.thread;
  event_.end = times_.end != unknown ? times_.end : trace_event::clock::now();
  event_.begin = times_.begin != unknown ? times_.begin : event_.asked;
  callback_(event_, context_);
}

}  // namespace detail

}  // namespace ringload::inline v0
