// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reports the steps of a load. With the reports, a program can find out where a load spends its
// time. See `load_options::trace`.

#include <chrono>
#include <cstdint>
#include <ringload/export.hpp>
#include <string_view>

namespace ringload::inline v0 {

/// The steps of a load. A load with a window loads its tensors in groups. Each group reports
/// `opened` and `planned` again, although the files stay open.
enum class load_step : std::uint8_t {
  opened,     // The files were opened and the catalog was read.
  planned,    // Tensors were selected, reads were planned, and memory was allocated.
  populated,  // Pages of host memory were populated.
  read,       // Bytes of a file were read into a slot or into their final memory.
  decoded,    // A piece of a compressed stream was decompressed.
  copied,     // A slot was copied to its final memory, and converted if requested.
  landed,     // A tensor became complete. If requested, the tensor was also verified.
  /// An operation returned a tensor. If the name is empty, the operation returned the whole load.
  handed_out,
};

/// Returns the name of a step, such as "read" or "handed out".
RINGLOAD_EXPORT std::string_view name(load_step step) noexcept;

/// The report of one step of a load. The steps `landed` and `handed_out` have no duration: their
/// three times are equal.
struct trace_event {
  /// The clock of all times. The clock is monotonic.
  using clock = std::chrono::steady_clock;
  /// The value of `slot`, `thread` or `stream` if the step has no slot, thread or stream.
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  load_step step = load_step::opened;  // The kind of the step.
  std::uint32_t slot = none;           // The index of the slot that the step used.
  /// The index of the thread that ran the step. Copy threads have the first indices, followed by
  /// decompression threads. The value is `none` if the step ran on the drive, on the device or in
  /// another kind of thread.
  std::uint32_t thread = none;
  /// The index of the compressed stream in a `decoded` step. Streams are numbered in the order of
  /// the files. In a load with a window, each group of tensors that share an allocation has its own
  /// numbers.
  std::uint32_t stream = none;
  /// The name of the tensor, or of the first of several tensors. Valid during the call only. Empty
  /// if the step has no tensor.
  std::string_view tensor;
  std::uint64_t bytes = 0;  // The number of bytes that the step processed.
  /// The time when the step started to wait for memory, for its turn, or for a thread.
  clock::time_point asked;
  /// The time when a thread, the drive or the device started to work on the step.
  clock::time_point begin;
  clock::time_point end;  // The time when the step ended.
};

/// The type of a trace function. The function is called after the end of a step, in the engine
/// thread of the loader, for one event at a time. Steps that run in parallel may be reported in any
/// order. All loads of the loader wait while the function runs. Therefore the function should only
/// store the event.
using trace_function = void (*)(const trace_event& event, void* context) noexcept;

}  // namespace ringload::inline v0
