// SPDX-License-Identifier: Apache-2.0

#include "save/shards.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>

namespace ringload::inline v0 {

namespace {

// Adds each tensor, in descending order of size, to the shard that is the smallest at that time.
// Returns an empty list if a shard with several tensors would exceed `bytes_max`.
std::vector<std::uint32_t> spread_over(std::uint32_t shards,
                                       std::span<const std::uint64_t> tensor_bytes,
                                       std::span<const std::uint32_t> largest_first,
                                       std::uint64_t bytes_max) {
  using load = std::pair<std::uint64_t, std::uint32_t>;  // Bytes and index of a shard.
  std::priority_queue<load, std::vector<load>, std::greater<>> emptiest;
  for (std::uint32_t s = 0; s < shards; ++s) emptiest.push({0, s});
  std::vector<std::uint32_t> of_tensor(tensor_bytes.size());
  for (const std::uint32_t t : largest_first) {
    const auto [bytes, shard] = emptiest.top();
    if (bytes > 0 && tensor_bytes[t] > bytes_max - std::min(bytes, bytes_max)) return {};
    emptiest.pop();
    of_tensor[t] = shard;
    emptiest.push({bytes + tensor_bytes[t], shard});
  }
  return of_tensor;
}

}  // namespace

sharding spread(std::span<const std::uint64_t> tensor_bytes, const shard_limits& limits) {
  const auto tensors = static_cast<std::uint32_t>(tensor_bytes.size());
  sharding out;
  out.of_tensor.resize(tensors);
  if (tensors == 0 || (limits.bytes == 0 && limits.count <= 1)) return out;
  std::vector<std::uint32_t> order(tensors);
  std::iota(order.begin(), order.end(), std::uint32_t{0});
  std::ranges::sort(order, {}, [&](std::uint32_t t) { return std::pair(~tensor_bytes[t], t); });
  if (limits.count > 0) {
    out.count = std::min(limits.count, tensors);
    out.of_tensor = spread_over(out.count, tensor_bytes, order, ~std::uint64_t{0});
  } else {
    const std::uint64_t total =
        std::accumulate(tensor_bytes.begin(), tensor_bytes.end(), std::uint64_t{0});
    const std::uint64_t count_min =
        std::max<std::uint64_t>(1, total / limits.bytes + (total % limits.bytes != 0));
    out.count = static_cast<std::uint32_t>(std::min<std::uint64_t>(count_min, tensors));
    // Usually the minimum number of shards or slightly more is sufficient. The loop ends at the
    // latest when each shard has one tensor. The step grows, so that the loop has few iterations.
    for (;;) {
      out.of_tensor = spread_over(out.count, tensor_bytes, order, limits.bytes);
      if (!out.of_tensor.empty()) break;
      out.count = std::min(tensors, out.count + 1 + out.count / 16);
    }
  }
  // Removes shards without a tensor. Such a shard can exist if many tensors are empty, because one
  // shard may receive all empty tensors.
  std::vector<std::uint32_t> number(out.count, ~std::uint32_t{0});
  std::uint32_t used = 0;
  for (std::uint32_t& shard : out.of_tensor) {
    if (number[shard] == ~std::uint32_t{0}) number[shard] = used++;
    shard = number[shard];
  }
  out.count = used;
  return out;
}

}  // namespace ringload::inline v0
