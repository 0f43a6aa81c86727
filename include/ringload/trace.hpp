// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a load does, step by step, for whoever wants to see where it waits: `load_options::trace`.

#include <chrono>
#include <cstdint>
#include <ringload/export.hpp>
#include <string_view>

namespace ringload::inline v0 {

enum class load_step : std::uint8_t {
  opened,      // The files are open, and the catalog is read.
  planned,     // The tensors are chosen, the reads decided, the memory is taken.
  populated,   // Pages of host memory were made present.
  read,        // Bytes of a file arrived, in a slot or where they go.
  decoded,     // A piece of a compressed stream was decoded.
  copied,      // A slot was copied to where its bytes go, converted where that was asked for.
  landed,      // A tensor is complete, and checked where that was asked for.
  handed_out,  // An operation completed with a tensor; without a name, with the whole load.
};

/// "read", "handed out".
RINGLOAD_EXPORT std::string_view name(load_step step) noexcept;

/// One step of a load. `landed` and `handed_out` are moments: all three times are equal.
struct trace_event {
  using clock = std::chrono::steady_clock;
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  load_step step = load_step::opened;
  std::uint32_t slot = none;    // Of the worker that took the step, from 0 on.
  std::uint32_t thread = none;  // Of the thread that was busy with it: copying ones from 0 on, and
                                // decoding ones after them. None: the drive was, the device, or
                                // a thread that does neither.
  std::uint32_t stream = none;  // Of `decoded`: the compressed stream, in the order of the files;
                                // through a window, of the group that its tensor is in.
  /// Of several tensors the first. Valid during the call only; empty where it is about none.
  std::string_view tensor;
  std::uint64_t bytes = 0;
  clock::time_point asked;  // From here on it waited: for memory, its turn, or a thread.
  clock::time_point begin;  // From here to the end the thread, drive or device was at work.
  clock::time_point end;
};

/// Called in one thread of the loader, the engine thread, one event after the other, as each step
/// is known to have ended; steps that go on beside each other may be told in any order. It holds up
/// all loads of the loader, so it should do no more than put the event somewhere.
using trace_function = void (*)(const trace_event& what, void* with) noexcept;

}  // namespace ringload::inline v0
