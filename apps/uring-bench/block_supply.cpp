// SPDX-License-Identifier: Apache-2.0
#include "block_supply.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <utility>

namespace ringload::bench {

namespace {

constexpr std::uint64_t no_bound = std::numeric_limits<std::uint64_t>::max();

std::uint64_t blocks_in(std::uint64_t bytes, std::uint64_t block_bytes) {
  return bytes / block_bytes + (bytes % block_bytes != 0 ? 1 : 0);
}

std::vector<std::uint64_t> first_blocks(const std::vector<std::uint64_t>& file_bytes,
                                        std::uint64_t block_bytes) {
  std::vector<std::uint64_t> first = {0};
  for (const std::uint64_t bytes : file_bytes) {
    first.push_back(first.back() + blocks_in(bytes, block_bytes));
  }
  return first;
}

// The finalizer of splitmix64.
std::uint64_t mixed(std::uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

// Returns the number of blocks with `bytes` bytes, over several passes if necessary.
std::uint64_t blocks_for(std::uint64_t bytes, std::uint64_t all_bytes, std::uint64_t all_blocks,
                         std::uint64_t block_bytes) {
  if (bytes == 0) return no_bound;
  const std::uint64_t rest = blocks_in(bytes % all_bytes, block_bytes);
  return bytes / all_bytes * all_blocks + std::min(rest, all_blocks);
}

std::uint64_t sum(const std::vector<std::uint64_t>& values) {
  return std::accumulate(values.begin(), values.end(), std::uint64_t{0});
}

}  // namespace

shuffled::shuffled(std::uint64_t count, std::uint64_t seed) noexcept
    : count_(count),
      seed_(mixed(seed + 1)),
      half_bits_(std::max(1U, (static_cast<unsigned>(std::bit_width(count)) + 1) / 2)) {}

// A Feistel network of four rounds permutes the numbers of 2 * half_bits_ bits. The permutation is
// applied until the result is below `count_`, on average at most 4 times.
std::uint64_t shuffled::operator()(std::uint64_t index) const noexcept {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t value = index;
  do {
    std::uint64_t left = value >> half_bits_;
    std::uint64_t right = value & mask;
    for (std::uint64_t round = 0; round < 4; ++round) {
      const std::uint64_t next = left ^ (mixed(right + (round << 60) + seed_) & mask);
      left = std::exchange(right, next);
    }
    value = (left << half_bits_) | right;
  } while (value >= count_);
  return value;
}

supply::supply(std::vector<std::uint64_t> file_bytes, const cell& config, std::uint64_t passes_max)
    : file_bytes_(std::move(file_bytes)),
      first_block_(first_blocks(file_bytes_, config.block_bytes)),
      block_bytes_(config.block_bytes),
      random_(config.order == pattern::random),
      ramp_(static_cast<std::int64_t>(config.ramp_seconds * 1e9)),
      lasting_(static_cast<std::int64_t>(config.seconds * 1e9)),
      blocks_for_bytes_(
          blocks_for(config.bytes_max, sum(file_bytes_), first_block_.back(), block_bytes_)),
      in_a_pass_(std::min(first_block_.back(), blocks_for_bytes_)),
      blocks_max_(passes_max > 0 ? std::min(blocks_for_bytes_, in_a_pass_ * passes_max)
                                 : blocks_for_bytes_),
      order_(first_block_.back(), config.seed) {}

void supply::begin(clock::time_point now) {
  counted_from_ = now + ramp_;
  end_ = counted_from_ + lasting_;
}

bool supply::next(clock::time_point now, block& out) noexcept {
  if (stopped_.load(std::memory_order_relaxed)) return false;
  // The supply has at least one block, even if the time is short.
  const std::uint64_t number = next_.fetch_add(1, std::memory_order_relaxed);
  if (number >= blocks_max_ || (number > 0 && now >= end_)) return false;
  out.place = number % in_a_pass_;
  const std::uint64_t chosen = random_ ? order_(out.place) : out.place;
  const auto file = std::upper_bound(first_block_.begin(), first_block_.end(), chosen) - 1;
  out.file = static_cast<std::uint32_t>(file - first_block_.begin());
  out.file_offset = (chosen - *file) * block_bytes_;
  out.bytes =
      static_cast<std::uint32_t>(std::min(block_bytes_, file_bytes_[out.file] - out.file_offset));
  return true;
}

}  // namespace ringload::bench
