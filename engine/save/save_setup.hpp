// SPDX-License-Identifier: Apache-2.0
#pragma once

// Prepares a save: turns the path, the tensors and the options into open files with allocated
// space, and into a plan of all writes.

#include <cstdint>
#include <memory>
#include <ringload/extension.hpp>
#include <span>
#include <stop_token>
#include <vector>

#include "base/fault.hpp"
#include "device/device_set.hpp"
#include "request/request.hpp"
#include "save/save_files.hpp"
#include "save/tensor_bytes.hpp"
#include "save/write_plan.hpp"

namespace ringload::inline v0::detail {

// The sources of the bytes of a save, and the writes that store these bytes.
struct write_group {
  std::vector<std::unique_ptr<tensor_bytes>> sources;
  write_plan plan;
};

// A save that is ready to write.
struct save_setup {
  save_files files;
  // `group->sources` has the tensors in the order of the request, then the heads and tails of the
  // files. If the files have gaps, the last source consists of zeros.
  std::shared_ptr<write_group> group;
  std::uint64_t bytes = 0;  // Size of all files.
};

struct save_services {
  const device_set& devices;
  direct_files& direct;
  std::uint64_t slot_bytes;
  std::span<const extension> extensions;
  std::stop_token stop;  // A stop request ends blocking calls to a store.
};

// Checks the tensors, creates the files and plans the writes. Blocks on the file system.
result<save_setup> set_up_save(const save_request& request, const save_services& services);

}  // namespace ringload::inline v0::detail
