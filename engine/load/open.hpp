// SPDX-License-Identifier: Apache-2.0
#pragma once

// Prepares a load: opens the checkpoint if necessary, chooses the tensors, makes the plan, and
// allocates the memory. Blocks on the file system, and therefore runs in a thread pool.

#include <chrono>
#include <memory>
#include <optional>
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
#include "request/request.hpp"

namespace ringload::inline v0::detail {

// A load that is ready to read.
struct opened_load {
  std::shared_ptr<const opened_checkpoint> checkpoint;
  std::chrono::steady_clock::time_point opened_at;  // Time at which the checkpoint was open.
  // The tensors to load, with their shapes after the load.
  std::shared_ptr<const named_catalog> named;
  ringload::plan plan;
  std::vector<plan_input_builder::stream> streams;  // Indexed like plan_input::streams.
  // Indexed by destination of the plan. Empty for a fill.
  std::vector<taken_arena> memory;
  destinations destination_memory;  // Indexed by destination of the plan.
  std::optional<fill_state> fill;
  std::vector<tensor_check> checks;  // Indexed by tensor. Empty if no tensor is checked.
  // Indexed by file. True if the bytes of buffered reads should not stay in the page cache.
  std::vector<bool> uncached_files;
  std::string route_reason;  // Reason why a file cannot be read with O_DIRECT, or empty.
  // The following members are set only for a load with a window, which has no plan.
  std::vector<window_group> groups;
  // Size of the window. For host memory, limit_window() has limited the requested size.
  std::uint64_t window_bytes = 0;
  std::shared_ptr<const std::vector<chosen_tensor>> chosen;
};

// Returns an error if `load_options::dtype` is not a type to which tensors can be converted.
result<void> check_dtype(const load_options& options);
// Returns an error if an option is set that is only for mapped memory. `options.memory` must be
// `owned`.
result<void> check_owned_memory(const load_options& options);

// The parts of a loader that open_load() uses.
struct open_services {
  const loader_options& options;
  const device_set& devices;
  direct_files& direct;
  checkpoint_services for_checkpoint;
};

// If the options contain a checksum list, the caller must keep the list alive until the load has
// finished.
result<opened_load> open_load(const load_request& request, const open_services& services);

}  // namespace ringload::inline v0::detail
