// SPDX-License-Identifier: Apache-2.0
#pragma once

// The steps that a save takes before its first write: from path, tensors and settings to files that
// are open and have room, and to every write that will be made.

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

// Sources and the writes that bring them into files.
struct write_group {
  std::vector<std::unique_ptr<tensor_bytes>> sources;
  write_plan plan;
};

struct save_setup {
  save_files files;
  std::shared_ptr<write_group> all;  // The tensors in the order given, then all else.
  std::uint64_t bytes = 0;           // Of all files.
};

struct save_services {
  const device_set& devices;
  direct_files& direct;
  std::uint64_t slot_bytes;
};

// Blocks on the file system.
result<save_setup> set_up_save(const save_request& what, const save_services& by);

}  // namespace ringload::inline v0::detail
