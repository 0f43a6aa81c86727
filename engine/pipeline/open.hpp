// SPDX-License-Identifier: Apache-2.0
#pragma once

// The preparation of a load: opens the files, reads the catalog, makes the plan, allocates the
// memory. Blocks on the file system, so it runs in a thread pool.

#include <sys/types.h>
#include <time.h>

#include <cstdint>
#include <memory>
#include <ringload/catalog.hpp>
#include <ringload/limits.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/fault.hpp"
#include "core/unique_fd.hpp"
#include "device/backend.hpp"
#include "plan/plan.hpp"
#include "readers/direct_file.hpp"

namespace ringload::inline v0 {

struct open_file {
  unique_fd buffered;
  unique_fd direct;  // Empty: read through the page cache only.
  std::string path;
  std::uint64_t bytes = 0;
  ::timespec modified = {};  // When the file was opened.
};

struct opened_load {
  ringload::catalog catalog;
  std::vector<open_file> files;
  ringload::plan plan;
  std::shared_ptr<arena> memory;
  std::vector<const tensor_digest*> expected;  // By tensor; empty: nothing is checked.
  std::string route_reason;                    // Why a file cannot be read directly, if so.
};

result<opened_load> open_load(std::string_view source, const load_options& options,
                              const limits& within, backend& target, direct_files& direct);

// Fails with errc::truncated_file or errc::changed_file if the file changed since it was opened.
result<void> check_unchanged(const open_file& file);

}  // namespace ringload::inline v0
