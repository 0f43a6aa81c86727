// SPDX-License-Identifier: Apache-2.0
#pragma once

// A fill is a load into memory of the caller. All checks are done before the first byte is written.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <ringload/device.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/fault.hpp"
#include "device/device_set.hpp"
#include "plan/plan_input.hpp"
#include "request/choose.hpp"
#include "request/destinations.hpp"
#include "request/match.hpp"
#include "request/request.hpp"

namespace ringload::inline v0::detail {

// The destination of one tensor.
struct fill_target {
  // From the first to the last byte of the elements, with the gaps between elements.
  caller_memory memory;
  // The offset in `memory` of the element whose indices are all 0.
  std::uint64_t first_element = 0;
  ringload::dtype dtype = dtype::u8;
  matched_tensor matched;
};

// The state of a fill during its job. After job::begin(), only the engine thread may use the state.
struct fill_state {
  struct place {
    std::string name;               // Name of the destination.
    std::uint32_t input_index = 0;  // Index in fill_request::into.
  };

  // places[t] belongs to tensor t. In the plan, the destination of tensor t has the index t + 1,
  // because destination 0 is unused.
  std::vector<place> places;
  std::vector<std::string> missing;
  std::vector<std::string> unexpected;
  bool writing = false;  // True if bytes may have been written.

  // Converts `cause` to the failure of the fill. If bytes may have been written, the failure lists
  // the complete and the incomplete tensors. `loaded(t)` must return true if tensor `t` is
  // complete.
  operation_failure failure(const fault& cause,
                            const std::function<bool(std::uint32_t)>& loaded) const noexcept;
};

// A fill that has passed all checks. The vectors have one element for each matched destination, in
// the order of the catalog.
struct checked_fill {
  std::vector<chosen_tensor> tensors;  // Tensors that fill the destinations.
  ringload::catalog chosen;            // Catalog of these tensors.
  std::vector<fill_target> targets;
  destinations plan_destinations;
  fill_state state;
};

// Checks the destinations of a fill. `tensors` are the selected tensors, and `chosen` is their
// catalog. match() describes `find_unreadable`.
result<checked_fill> check_fill(const fill_request& request, const load_options& options,
                                const device_set& devices,
                                const std::vector<chosen_tensor>& tensors,
                                const ringload::catalog& chosen,
                                const unreadable_lookup& find_unreadable);

// Returns the conversion between two types. Returns an empty conversion if the types are equal, or
// if no conversion exists.
conversion conversion_between(dtype from, dtype to) noexcept;

}  // namespace ringload::inline v0::detail
