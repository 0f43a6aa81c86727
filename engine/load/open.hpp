// SPDX-License-Identifier: Apache-2.0
#pragma once

// The preparation of a load: opens the checkpoint unless it is open, chooses tensors from the
// catalog, makes the plan, and allocates the memory. Blocks on the file system, so it runs in a
// thread pool.

#include <chrono>
#include <memory>
#include <optional>
#include <ringload/detail/request.hpp>
#include <ringload/options.hpp>
#include <string>
#include <vector>

#include "base/fault.hpp"
#include "catalog/opened_checkpoint.hpp"
#include "device/device_set.hpp"
#include "io/direct_file.hpp"
#include "load/tensor_storage.hpp"
#include "load/window_groups.hpp"
#include "plan/plan.hpp"
#include "request/check_queue.hpp"
#include "request/destinations.hpp"
#include "request/fill_state.hpp"
#include "request/plan_input_builder.hpp"

namespace ringload::inline v0::detail {

struct opened_load {
  std::shared_ptr<const opened_checkpoint> from;
  std::chrono::steady_clock::time_point opened_at;  // Time when the checkpoint was open.
  // The catalog of the tensors to load, with their loaded shapes.
  std::shared_ptr<const named_catalog> named;
  ringload::plan plan;
  std::vector<plan_input_builder::stream> streams;  // Indexed like plan_input::streams.
  std::vector<taken_arena> memory;  // Indexed by destination of the plan. Empty for a fill.
  destinations into;                // Indexed by destination of the plan.
  std::optional<fill_state> fill;
  std::vector<tensor_check> checks;  // Indexed by tensor. Empty: no checks.
  std::string route_reason;          // Reason why a file cannot be read directly, or empty.
  // Only for a load with a window, which has no plan.
  std::vector<window_group> groups;
  std::shared_ptr<const std::vector<chosen_tensor>> chosen;
};

// The parts of the loader that open_load() uses.
struct open_services {
  const loader_options& within;
  const device_set& devices;
  direct_files& direct;
  opening from;
};

// A manifest in the options must outlive the load.
result<opened_load> open_load(const load_request& request, const open_services& services);

}  // namespace ringload::inline v0::detail
