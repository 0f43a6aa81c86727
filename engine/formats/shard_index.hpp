// SPDX-License-Identifier: Apache-2.0
#pragma once

// Parses `model.safetensors.index.json` and similar indexes, which map tensors to shards. The index
// is an allow-list: a tensor is only read from the shard that the index names for the tensor.

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
  // Distinct, sorted paths relative to the index, spelled as in the index.
  std::vector<std::string> shards;
  std::vector<std::pair<std::string, std::uint32_t>> tensors;  // (name, shard), sorted by name.
  std::optional<std::uint64_t> total_bytes;  // "total_size": advisory, often wrong.
};

// Refuses a duplicate name and a shard whose name does not end with `suffix`. Also refuses a shard
// path that could leave the folder: absolute or with `..`, by the rules of POSIX and of Windows.
RINGLOAD_EXPORT result<shard_index> parse_shard_index(std::span<const std::byte> text,
                                                      std::string_view suffix = ".safetensors");

}  // namespace ringload::inline v0
