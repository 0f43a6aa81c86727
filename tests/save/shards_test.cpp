// SPDX-License-Identifier: Apache-2.0
#include "save/shards.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <random>

using namespace ringload;

namespace {

std::vector<std::uint64_t> bytes_of_shards(const sharding& found,
                                           const std::vector<std::uint64_t>& tensors) {
  std::vector<std::uint64_t> sums(found.count);
  for (std::size_t t = 0; t < tensors.size(); ++t) sums.at(found.of_tensor[t]) += tensors[t];
  return sums;
}

}  // namespace

TEST_CASE("shards: without a limit there is one") {
  const std::vector<std::uint64_t> tensors = {5, 0, 7};
  const sharding found = spread(tensors, {});
  CHECK(found.count == 1);
  CHECK(found.of_tensor == std::vector<std::uint32_t>{0, 0, 0});
  CHECK(spread({}, {10, 0}).count == 1);
  CHECK(spread({}, {0, 3}).count == 1);
}

TEST_CASE("shards: the largest goes first, each to the shard that has least") {
  const std::vector<std::uint64_t> tensors = {3, 8, 5, 4};
  const sharding found = spread(tensors, {0, 2});
  // 8 | 5, then 4 beside 5, then 3 beside 8.
  CHECK(found.count == 2);
  CHECK(found.of_tensor[1] != found.of_tensor[2]);
  CHECK(found.of_tensor[3] == found.of_tensor[2]);
  CHECK(found.of_tensor[0] == found.of_tensor[1]);
}

TEST_CASE("shards: a size is kept to the byte, but by a tensor that is larger alone") {
  const std::vector<std::uint64_t> tensors = {10, 10, 10};
  CHECK(spread(tensors, {30, 0}).count == 1);
  CHECK(spread(tensors, {29, 0}).count == 2);
  CHECK(spread(tensors, {20, 0}).count == 2);
  CHECK(spread(tensors, {19, 0}).count == 3);
  CHECK(spread(tensors, {1, 0}).count == 3);
}

TEST_CASE("shards: no shard is empty, though more are ordered than there are tensors with bytes") {
  CHECK(spread(std::vector<std::uint64_t>{4, 4}, {0, 9}).count == 2);
  const std::vector<std::uint64_t> tensors = {0, 0, 9};
  const sharding found = spread(tensors, {0, 3});
  std::vector<bool> used(found.count);
  for (const std::uint32_t shard : found.of_tensor) used.at(shard) = true;
  CHECK(std::ranges::count(used, false) == 0);
}

TEST_CASE(
    "shards: whatever the sizes, none exceeds the limit with two tensors, and none is empty") {
  std::mt19937_64 random(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::uint64_t> tensors(1 + random() % 60);
    for (std::uint64_t& one : tensors) one = random() % 5 == 0 ? 0 : random() % 10'000;
    const std::uint64_t most = 1 + random() % 30'000;
    const sharding found = spread(tensors, {most, 0});
    std::vector<unsigned> members(found.count);
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      if (tensors[t] > 0) ++members.at(found.of_tensor[t]);
    }
    const auto sums = bytes_of_shards(found, tensors);
    for (std::uint32_t s = 0; s < found.count; ++s) {
      const bool fits = sums[s] <= most || members[s] == 1;
      CHECK(fits);
    }
    const std::uint64_t total = std::accumulate(tensors.begin(), tensors.end(), std::uint64_t{0});
    CHECK(std::accumulate(sums.begin(), sums.end(), std::uint64_t{0}) == total);
  }
}
