// SPDX-License-Identifier: Apache-2.0
#pragma once

// Checks of the options and calls of a load by ranks (processes or threads of a group).

#include <cstdint>
#include <ringload/catalog.hpp>
#include <ringload/device.hpp>
#include <ringload/group.hpp>
#include <ringload/group_load.hpp>

#include "base/fault.hpp"

namespace ringload::inline v0::detail {

// An error that all ranks report. The group can be used again after this error.
struct common_fault {
  fault cause;
};

// Checks that a load by ranks supports the options, and that the group can send memory of the
// loader's device. Throws a common_fault otherwise. After a failed check, calls check_same_call()
// before it throws, so that ranks with valid options fail with errc::mismatched_call. Throws an
// error instead of a common_fault if check_same_call() throws, or if the group cannot send host
// memory, which check_same_call() needs.
void check_rank_load(const device& on, group& rank_group, const group_options& options);

// Throws a common_fault if the range of a rank in dimension `dim` cuts a quantised block. `stored`
// is a tensor of `contents`, and `loaded` describes the tensor in memory. Does nothing if the load
// does not dequantise the tensor.
void check_shard_blocks(const catalog& contents, const tensor_info& stored,
                        const tensor_info& loaded, std::uint32_t dim, std::uint32_t ranks);

}  // namespace ringload::inline v0::detail
