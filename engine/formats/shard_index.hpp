// SPDX-License-Identifier: Apache-2.0
#pragma once

// Parses `model.safetensors.index.json` and similar indices, which list the shard of each tensor.
// Each tensor is read only from the shard that the index lists.

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

// Equal to the limit for a safetensors header. Real indices are much smaller.
inline constexpr std::uint64_t shard_index_bytes_max = 100'000'000;

struct shard_index {
  // Distinct, sorted paths relative to the folder of the index, spelled as in the index.
  std::vector<std::string> shards;
  // Pairs of a tensor name and a shard number, sorted by name.
  std::vector<std::pair<std::string, std::uint32_t>> tensors;
  // The value of "total_size", which is often wrong.
  std::optional<std::uint64_t> total_bytes;
};

// Returns a fault for a duplicate tensor name, and for a shard whose name does not end with
// `suffix`. Also returns a fault for a path that could leave the folder (absolute, or with `..`) by
// the rules of POSIX or of Windows.
RINGLOAD_EXPORT result<shard_index> parse_shard_index(std::span<const std::byte> text,
                                                      std::string_view suffix = ".safetensors");

}  // namespace ringload::inline v0
