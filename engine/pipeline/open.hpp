// SPDX-License-Identifier: Apache-2.0
#pragma once

// The first half of a load, up to where nothing is left to be decided: files open, catalog read,
// plan made, memory taken. It blocks on the file system, so it runs beside the engine thread.

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
  unique_fd direct;  // Empty where the file is read through the page cache only.
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
  std::string route_reason;  // Why a file cannot be read directly, where one cannot.
};

result<opened_load> open_load(std::string_view source, const load_options& options,
                              const limits& within, backend& target, direct_files& direct);

// Whether the file is as it was when it was opened; else errc::truncated_file or
// errc::changed_file.
result<void> check_unchanged(const open_file& file);

}  // namespace ringload::inline v0
