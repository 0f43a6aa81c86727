// SPDX-License-Identifier: Apache-2.0
#pragma once

// State that only fills need: the caller's memory, checked against the checkpoint before the first
// byte is written, and the names to report.

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <ringload/detail/request.hpp>
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

namespace ringload::inline v0::detail {

// The destination of one tensor.
struct fill_target {
  caller_memory memory;             // All bytes that the elements cover.
  std::uint64_t first_element = 0;  // Offset of the element with index 0 in every dimension.
  ringload::dtype dtype = dtype::u8;
  matched_tensor fit;
};

// The fill of a job. After job::begin(), only the engine thread may use the object.
struct fill_state {
  struct place {
    std::string name;            // Name of the destination.
    std::uint32_t given_at = 0;  // Index among the given destinations.
  };

  std::vector<place> places;  // By tensor; tensor t goes to destination t + 1 of the plan.
  std::vector<std::string> missing;
  std::vector<std::string> unexpected;
  bool writing = false;  // A first byte may have been written.

  // Converts a fault to an exception: a fill_error if bytes may have been written. `loaded(t)`
  // returns true if tensor `t` is complete.
  std::exception_ptr failure(const fault& cause,
                             const std::function<bool(std::uint32_t)>& loaded) const noexcept;
};

// A fill that passed all checks, tensor by tensor.
struct checked_fill {
  std::vector<chosen_tensor> which;  // One for each destination, in the catalog's order.
  ringload::catalog chosen;          // Catalog of these tensors.
  std::vector<fill_target> targets;  // In the same order.
  destinations into;                 // Destinations of the plan.
  fill_state state;
};

// `tensors` and `chosen` are the selected tensors and their catalog.
result<checked_fill> check_fill(const fill_request& request, const load_options& options,
                                const device_set& devices,
                                const std::vector<chosen_tensor>& tensors,
                                const ringload::catalog& chosen);

// Returns an empty conversion if the types are equal or no conversion exists.
conversion conversion_between(dtype from, dtype to) noexcept;

}  // namespace ringload::inline v0::detail
