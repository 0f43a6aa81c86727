// SPDX-License-Identifier: Apache-2.0
#pragma once

// The preparation of a load: opens the checkpoint where that was not done before, chooses from its
// catalog, makes the plan, allocates the memory. Blocks on the file system, so it runs in a thread
// pool.

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
  std::chrono::steady_clock::time_point opened_at;  // When it was.
  // Of the tensors that are loaded, with the shapes that they are to have.
  std::shared_ptr<const named_catalog> named;
  ringload::plan plan;
  std::vector<plan_input_builder::stream> streams;  // By plan_input::streams.
  std::vector<taken_arena> memory;                  // By destination of the plan; none, of a fill.
  destinations into;                                // In the same order.
  std::optional<fill_state> fill;
  std::vector<tensor_check> checks;  // By tensor; empty: nothing is checked.
  std::string route_reason;          // Why a file cannot be read directly, if so.
  // Of a load through a window, which has no plan of its own.
  std::vector<window_group> groups;
  std::shared_ptr<const std::vector<chosen_tensor>> chosen;
};

// What it takes from the loader.
struct open_services {
  const loader_options& within;
  const device_set& devices;
  direct_files& direct;
  opening from;
};

// A manifest in the options lives as long as the load.
result<opened_load> open_load(const load_request& what, const open_services& by);

}  // namespace ringload::inline v0::detail
