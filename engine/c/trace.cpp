// SPDX-License-Identifier: Apache-2.0

#include <ringload/c.h>

#include <cstdint>
#include <new>
#include <ringload/options.hpp>
#include <ringload/trace.hpp>
#include <string>

#include "c/status.hpp"
#include "c/structs.hpp"

namespace ringload::c {

namespace {

// The C enumerators have the same values as the C++ enumerators.
static_assert(static_cast<int>(load_step::opened) == RINGLOAD_STEP_OPENED);
static_assert(static_cast<int>(load_step::planned) == RINGLOAD_STEP_PLANNED);
static_assert(static_cast<int>(load_step::populated) == RINGLOAD_STEP_POPULATED);
static_assert(static_cast<int>(load_step::read) == RINGLOAD_STEP_READ);
static_assert(static_cast<int>(load_step::decoded) == RINGLOAD_STEP_DECODED);
static_assert(static_cast<int>(load_step::copied) == RINGLOAD_STEP_COPIED);
static_assert(static_cast<int>(load_step::landed) == RINGLOAD_STEP_LANDED);
static_assert(static_cast<int>(load_step::handed_out) == RINGLOAD_STEP_HANDED_OUT);
static_assert(trace_event::none == RINGLOAD_STEP_NONE);

std::int64_t nanoseconds(trace_event::clock::time_point time) noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

// Returns a copy of `name` that ends with a 0 byte. Returns "" if no memory is left for the copy.
// The copy is valid until the next call in this thread.
const char* terminated(std::string_view name) noexcept {
  thread_local std::string copy;
  try {
    copy.assign(name);
    return copy.c_str();
  } catch (const std::bad_alloc&) {
    return "";
  }
}

void report_event(const trace_event& from, void* context) noexcept {
  const auto& trace = *static_cast<const ringload_trace*>(context);
  ringload_trace_event event = {};
  event.struct_bytes = sizeof event;
  event.tensor = terminated(from.tensor);
  event.bytes = from.bytes;
  event.asked = nanoseconds(from.asked);
  event.begin = nanoseconds(from.begin);
  event.end = nanoseconds(from.end);
  event.step = static_cast<ringload_step>(from.step);
  event.slot = from.slot;
  event.thread = from.thread;
  event.stream = from.stream;
  trace.report(trace.context, &event);
}

}  // namespace

void set_trace(load_options& options, const ringload_trace* trace) {
  if (!trace) return;
  if (trace->struct_bytes < sizeof *trace) {
    throw invalid_argument("struct_bytes of the ringload_trace must be the size of the struct");
  }
  if (!trace->report) throw invalid_argument("the trace function is null");
  options.trace = report_event;
  options.trace_context = const_cast<ringload_trace*>(trace);
}

}  // namespace ringload::c

const char* ringload_step_name(ringload_step step) {
  if (step < RINGLOAD_STEP_OPENED || step > RINGLOAD_STEP_HANDED_OUT) return "unknown";
  // The names are string literals, which end with a 0 byte.
  return ringload::name(static_cast<ringload::load_step>(step)).data();
}
