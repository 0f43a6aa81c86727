// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a fill has that other loads have not: the caller's memory, checked against the checkpoint
// before the first byte is written, and the names to report of it.

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

// Where one tensor goes.
struct fill_target {
  caller_memory memory;             // All that its elements cover.
  std::uint64_t first_element = 0;  // In it: the element at index 0 in every dimension.
  ringload::dtype dtype = dtype::u8;
  matched_tensor fit;
};

// The fill of a job. Engine thread, from job::begin() on.
struct fill_state {
  struct place {
    std::string name;            // Of the destination.
    std::uint32_t given_at = 0;  // Among those given.
  };

  std::vector<place> places;  // By tensor; tensor t goes to destination t + 1 of the plan.
  std::vector<std::string> missing;
  std::vector<std::string> unexpected;
  bool writing = false;  // A first byte may have been written.

  // What a failure becomes: a fill_error, if anything was written. `loaded(t)` says whether a
  // tensor is complete.
  std::exception_ptr failure(const fault& why,
                             const std::function<bool(std::uint32_t)>& loaded) const noexcept;
};

// What is to be filled, tensor by tensor.
struct checked_fill {
  std::vector<chosen_tensor> which;  // One for each destination, in the catalog's order.
  ringload::catalog chosen;          // Of them.
  std::vector<fill_target> targets;  // In the same order.
  destinations into;                 // Of the plan.
  fill_state state;
};

// `which` and `chosen` are what the selection chose.
result<checked_fill> check_fill(const fill_request& what, const load_options& options,
                                const device_set& devices, const std::vector<chosen_tensor>& which,
                                const ringload::catalog& chosen);

// One that is not needed if the types are equal, or none converts the one to the other.
conversion conversion_between(dtype from, dtype to) noexcept;

}  // namespace ringload::inline v0::detail
