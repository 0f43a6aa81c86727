// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reports the steps of a load, to find out where time is spent: `load_options::trace`.

#include <chrono>
#include <cstdint>
#include <ringload/export.hpp>
#include <string_view>

namespace ringload::inline v0 {

enum class load_step : std::uint8_t {
  opened,      // The files are open and the catalog is read.
  planned,     // Tensors are selected, reads are planned, and memory is allocated.
  populated,   // Pages of host memory were populated.
  read,        // Bytes of a file arrived in a slot or in their final memory.
  decoded,     // A piece of a compressed stream was decoded.
  copied,      // A slot was copied to its final memory, with conversion if requested.
  landed,      // A tensor is complete, and verified if requested.
  handed_out,  // An operation completed with a tensor, or, if the name is empty, with the load.
};

/// "read", "handed out".
RINGLOAD_EXPORT std::string_view name(load_step step) noexcept;

/// One step of a load. `landed` and `handed_out` have no duration: all three times are equal.
struct trace_event {
  using clock = std::chrono::steady_clock;
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  load_step step = load_step::opened;
  std::uint32_t slot = none;  // The slot of the step, from 0.
  /// The thread of the step: copy threads from 0, then decoding threads. `none`: the step ran on
  /// the drive, the device, or another kind of thread.
  std::uint32_t thread = none;
  /// The compressed stream of `decoded`, in the order of the files. With a window, the number
  /// counts within the group of the tensor.
  std::uint32_t stream = none;
  /// The tensor, or the first of several tensors. Valid during the call only. Empty if the step has
  /// no tensor.
  std::string_view tensor;
  std::uint64_t bytes = 0;
  clock::time_point asked;  // Start of the wait for memory, for a turn, or for a thread.
  clock::time_point begin;  // Start of the work of the thread, drive or device.
  clock::time_point end;
};

/// Called in the engine thread of the loader, for one event at a time, after the step has ended.
/// Steps that run in parallel may be reported in any order. The function blocks all loads of the
/// loader, so it should only store the event.
using trace_function = void (*)(const trace_event& event, void* context) noexcept;

}  // namespace ringload::inline v0
