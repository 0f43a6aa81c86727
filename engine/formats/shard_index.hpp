// SPDX-License-Identifier: Apache-2.0
#pragma once

// `model.safetensors.index.json` and its like: which tensor is in which shard. It is an allow-list:
// a tensor is taken only from the shard that the index names for it.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <ringload/export.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fault.hpp"

namespace ringload::inline v0 {

struct shard_index {
  std::vector<std::string>
      shards;  // Distinct, sorted: paths relative to the index, as it wrote them.
  std::vector<std::pair<std::string, std::uint32_t>> tensors;  // (name, shard), sorted by name.
  std::optional<std::uint64_t> total_bytes;  // "total_size": advisory, and often wrong.
};

// Refuses a duplicate name, a shard path that could leave the folder (absolute or with `..`, by the
// rules of Windows too), and a shard whose name does not end with `suffix`: an index lists files of
// one kind.
RINGLOAD_EXPORT result<shard_index> parse_shard_index(std::span<const std::byte> text,
                                                      std::string_view suffix = ".safetensors");

}  // namespace ringload::inline v0
