// SPDX-License-Identifier: Apache-2.0
#pragma once

// Distributes tensors over shards of about equal size: the largest tensor first, each to the
// smallest shard so far.

#include <cstdint>
#include <span>
#include <vector>

namespace ringload::inline v0 {

struct shard_limits {
  // A size limit for each shard, which only a shard of a single larger tensor may exceed; or a
  // number of shards. Both 0: one shard.
  std::uint64_t bytes = 0;
  std::uint32_t count = 0;
};

struct sharding {
  std::uint32_t count = 1;  // No shard is empty, except the only shard of no tensors.
  std::vector<std::uint32_t> of_tensor;
};

sharding spread(std::span<const std::uint64_t> tensor_bytes, const shard_limits& within);

}  // namespace ringload::inline v0
