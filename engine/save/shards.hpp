// SPDX-License-Identifier: Apache-2.0
#pragma once

// Divides the tensors of a safetensors folder over files (shards) of about equal size.

#include <cstdint>
#include <span>
#include <vector>

namespace ringload::inline v0 {

// At most one member may be set. If both members are 0, the result is one shard.
struct shard_limits {
  // Maximum size of a shard. Only a shard with a single tensor may exceed this size.
  std::uint64_t bytes = 0;
  // Number of shards. The result can have fewer shards if fewer than `count` tensors have bytes.
  std::uint32_t count = 0;
};

struct sharding {
  std::uint32_t count = 1;  // Every shard has a tensor, unless there are no tensors.
  // Indexed by tensor: the shard that contains the tensor.
  std::vector<std::uint32_t> of_tensor;
};

sharding spread(std::span<const std::uint64_t> tensor_bytes, const shard_limits& limits);

}  // namespace ringload::inline v0
