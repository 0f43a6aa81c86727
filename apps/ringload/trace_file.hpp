// SPDX-License-Identifier: Apache-2.0
#pragma once

// Writes the steps of a load to a file in the Chrome trace event format, for Perfetto and
// chrome://tracing. A lane is a row of the diagram. There are lanes for the load, for the steps and
// waits of each slot, for the steps of each copy or decompression thread, and for the compressed
// streams.

#include <cstdint>
#include <ringload/trace.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace ringload::tool {

/// The first characters of a trace file.
inline constexpr std::string_view trace_begin = R"({"displayTimeUnit": "ms", "traceEvents": [)";

/// Collects the events of one load. add() is a function for load_options::trace, which calls it in
/// one thread. text() must be called after the load.
class trace_collector {
 public:
  static void add(const trace_event& what, void* collector) noexcept;

  /// Throws std::bad_alloc if an event could not be stored.
  std::string text() const;

 private:
  struct entry {
    trace_event what;
    std::string tensor;
  };

  std::vector<entry> entries_;
  bool incomplete_ = false;
};

/// Returns the text of the file. Times are relative to the first event.
std::string trace_text(const std::vector<trace_event>& events);

}  // namespace ringload::tool
