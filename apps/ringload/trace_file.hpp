// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a load did, as a file of the Chrome trace event format, which Perfetto and chrome://tracing
// show. Lanes: the load; each slot, with the steps of its worker and in each what it waited for;
// each thread that copies or decodes, with what it was busy with; and the compressed streams, as
// many lanes as were decoded at once.

#include <cstdint>
#include <ringload/trace.hpp>
#include <string>
#include <vector>

namespace ringload::tool {

/// The events of one load. `add` is for load_options::trace, in one thread; the others are for
/// when the load is over.
class trace_collector {
 public:
  static void add(const trace_event& what, void* collector) noexcept;

  /// Throws std::bad_alloc if there was no memory for an event.
  std::string text() const;

 private:
  struct entry {
    trace_event what;
    std::string tensor;
  };

  std::vector<entry> entries_;
  bool incomplete_ = false;
};

/// The text of such a file. Times count from the first.
std::string trace_text(const std::vector<trace_event>& events);

}  // namespace ringload::tool
