// SPDX-License-Identifier: Apache-2.0
#pragma once

// The preparation of a load: opens the checkpoint where that was not done before, chooses from its
// catalog, makes the plan, allocates the memory. Blocks on the file system, so it runs in a thread
// pool.

#include <memory>
#include <ringload/detail/request.hpp>
#include <ringload/limits.hpp>
#include <ringload/verify.hpp>
#include <string>
#include <vector>

#include "core/fault.hpp"
#include "device/backend.hpp"
#include "pipeline/opened_checkpoint.hpp"
#include "pipeline/wanted_list.hpp"
#include "plan/plan.hpp"
#include "readers/direct_file.hpp"

namespace ringload::inline v0::detail {

struct opened_load {
  std::shared_ptr<const opened_checkpoint> from;
  // Of the tensors that are loaded, with the shapes that they are to have.
  std::shared_ptr<const named_catalog> named;
  ringload::plan plan;
  std::vector<wanted_list::stream> streams;  // By plan_input::streams.
  std::shared_ptr<arena> memory;
  std::vector<const tensor_digest*> expected;  // By tensor; empty: nothing is checked.
  std::string route_reason;                    // Why a file cannot be read directly, if so.
};

// `verify` is options.verify, or a copy that lives as long as the load.
result<opened_load> open_load(const load_request& what, const manifest* verify,
                              const limits& within, backend& target, direct_files& direct);

}  // namespace ringload::inline v0::detail
