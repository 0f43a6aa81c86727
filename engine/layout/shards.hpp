// SPDX-License-Identifier: Apache-2.0
#pragma once

// Spreads tensors over shards of about the same size: the largest first, each to the shard that has
// least so far.

#include <cstdint>
#include <span>
#include <vector>

namespace ringload::inline v0 {

struct shard_limits {
  std::uint64_t bytes = 0;  // At most so many in each, but for one tensor that is larger; or
  std::uint32_t count = 0;  // so many shards. Both 0: one shard.
};

struct sharding {
  std::uint32_t count = 1;  // No shard is empty, but the only one of no tensors.
  std::vector<std::uint32_t> of_tensor;
};

sharding spread(std::span<const std::uint64_t> tensor_bytes, const shard_limits& within);

}  // namespace ringload::inline v0
