// SPDX-License-Identifier: Apache-2.0
#ifndef RINGLOAD_C_TRACE_H
#define RINGLOAD_C_TRACE_H

// Reports the steps of a load, with the C interface of ringload/c.h. With the reports, a program
// can find out where a load spends its time. See `ringload/trace.hpp`.

#include <ringload/c.h>

#ifdef __cplusplus
extern "C" {
#endif

/// The steps of a load. The values never change. Later versions may add values. A load of
/// ringload_stream() loads its tensors in groups. Each group reports RINGLOAD_STEP_OPENED and
/// RINGLOAD_STEP_PLANNED again, although the files stay open.
typedef enum ringload_step RINGLOAD_OF_INT {
  RINGLOAD_STEP_OPENED = 0,  // The files were opened and the catalog was read.
  /// Tensors were selected, reads were planned, and memory was allocated.
  RINGLOAD_STEP_PLANNED = 1,
  RINGLOAD_STEP_POPULATED = 2,  // Pages of host memory were populated.
  RINGLOAD_STEP_READ = 3,       // Bytes of a file were read.
  RINGLOAD_STEP_DECODED = 4,    // A piece of a compressed stream was decompressed.
  RINGLOAD_STEP_COPIED = 5,     // Bytes of a pinned buffer were copied to tensors.
  RINGLOAD_STEP_LANDED = 6,     // A tensor became complete.
  /// An operation returned a tensor. If `tensor` of the event is "", a whole load or fill was
  /// completed.
  RINGLOAD_STEP_HANDED_OUT = 7
} ringload_step;

/// Returns the name of a step, such as "read". Returns "unknown" for any other value.
RINGLOAD_C_EXPORT const char* ringload_step_name(ringload_step step);

/// The value of `slot`, `thread` or `stream` if the step has no slot, thread or stream.
#define RINGLOAD_STEP_NONE 0xFFFFFFFFu

/// The report of one step. All times are nanoseconds of CLOCK_MONOTONIC.
typedef struct ringload_trace_event {
  size_t struct_bytes;
  /// The name of the tensor, or of the first of several tensors. The name is "" if the step has
  /// no tensor. The pointer is valid during the call only.
  const char* tensor;
  uint64_t bytes;  // The number of bytes that the step processed.
  int64_t asked;  // The time when the step began to wait for memory, for its turn, or for a thread.
  int64_t begin;  // The time when a thread, the drive or the device began to work on the step.
  int64_t end;    // The time when the step ended.
  /// The kind of the step.
  ringload_step step;
  uint32_t slot;    // The index of the pinned buffer that the step used.
  uint32_t thread;  // The index of the thread that ran the step.
  uint32_t stream;  // The index of the compressed stream that was decompressed.
} ringload_trace_event;

/// Contains a function that a load calls for each step, after the end of the step.
/// `ringload_load_options::trace` is the address of this struct. The struct and the context must
/// stay valid until the load has ended. A struct that outlives the loader meets this condition.
///
/// The engine thread of the loader calls the function, for one event at a time. All loads of the
/// loader wait while the function runs. Therefore the function should only store the event. The
/// function must not call the library.
struct ringload_trace {
  size_t struct_bytes;
  /// Called for each step. `event` is valid during the call only.
  void (*report)(void* context, const ringload_trace_event* event);
  void* context;  // The first argument of `report`.
};

#ifdef __cplusplus
}
#endif

#endif
