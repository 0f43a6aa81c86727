// SPDX-License-Identifier: Apache-2.0

// For any input, the parser fails or returns shards inside the folder, and lists each tensor once.

#include "formats/shard_index.hpp"

#include <algorithm>
#include <filesystem>

#include "fuzz.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  using ringload::testing::hold;
  const auto index = ringload::parse_shard_index(std::as_bytes(std::span(input, size)));
  if (!index) {
    hold(!ringload::message_of(index.error()).empty(), "a refusal says something");
    return 0;
  }
  hold(std::ranges::is_sorted(index->shards), "shards are sorted");
  hold(std::ranges::adjacent_find(index->shards) == index->shards.end(), "and distinct");
  for (const std::string& shard : index->shards) {
    const std::filesystem::path path(shard);
    hold(!shard.empty() && path.is_relative(), "a shard is relative to the index");
    for (const auto& part : path) hold(part != "..", "a shard stays below the index");
    hold(shard.find('\0') == std::string::npos, "a shard's name is a name");
    hold(shard.ends_with(".safetensors"), "a shard is a safetensors file");
  }
  for (std::size_t i = 0; i < index->tensors.size(); ++i) {
    hold(index->tensors[i].second < index->shards.size(), "each tensor has a shard");
    hold(i == 0 || index->tensors[i - 1].first < index->tensors[i].first,
         "tensors are sorted and distinct");
  }
  return 0;
}
