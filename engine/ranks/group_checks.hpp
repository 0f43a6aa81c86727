// SPDX-License-Identifier: Apache-2.0
#pragma once

// Checks of the options and calls of a load by ranks (processes or threads of a group).

#include <cstdint>
#include <ringload/catalog.hpp>
#include <ringload/device.hpp>
#include <ringload/group.hpp>
#include <ringload/options.hpp>

#include "base/fault.hpp"

namespace ringload::inline v0::detail {

// An error that all ranks report. The group can be used again after this error.
struct common_fault {
  fault cause;
};

// Checks that the group can send memory of the loader's device, and host memory. Throws
// errc::device_unavailable otherwise. Not called for `group_reading::own`, because the ranks then
// exchange no tensors.
void check_memory(const device& on, group& rank_group);

// Throws an error if a load by ranks does not support the options.
void check_options(const load_options& options);

// Throws a common_fault if the range of a rank in dimension `dim` cuts a quantised block. `stored`
// is a tensor of `contents`, and `loaded` describes the tensor in memory. Does nothing if the load
// does not dequantise the tensor.
void check_shard_blocks(const catalog& contents, const tensor_info& stored,
                        const tensor_info& loaded, std::uint32_t dim, std::uint32_t ranks);

}  // namespace ringload::inline v0::detail
