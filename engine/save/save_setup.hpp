// SPDX-License-Identifier: Apache-2.0
#pragma once

// The steps of a save before its first write. Turns path, tensors and options into open files with
// allocated space, and into the plan of all writes.

#include <cstdint>
#include <memory>
#include <ringload/detail/request.hpp>
#include <vector>

#include "base/fault.hpp"
#include "device/device_set.hpp"
#include "save/save_files.hpp"
#include "save/tensor_bytes.hpp"
#include "save/write_plan.hpp"

namespace ringload::inline v0::detail {

// The sources of a save and the writes that store them.
struct write_group {
  std::vector<std::unique_ptr<tensor_bytes>> sources;
  write_plan plan;
};

struct save_setup {
  save_files files;
  std::shared_ptr<write_group>
      group;                // Sources: the tensors in the given order, then texts and zeros.
  std::uint64_t bytes = 0;  // The size of all files.
};

struct save_services {
  const device_set& devices;
  direct_files& direct;
  std::uint64_t slot_bytes;
};

// Blocks on the file system.
result<save_setup> set_up_save(const save_request& request, const save_services& services);

}  // namespace ringload::inline v0::detail
