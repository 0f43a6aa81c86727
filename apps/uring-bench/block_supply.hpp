// SPDX-License-Identifier: Apache-2.0
#pragma once

// Supplies the blocks to read, in order or in a pseudo-random order, until the limit of bytes,
// passes or time.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include "config.hpp"

namespace ringload::bench {

struct block {
  std::uint32_t file = 0;
  std::uint32_t bytes = 0;  // The last block of a file may be smaller.
  std::uint64_t file_offset = 0;
  std::uint64_t place = 0;  // Index among all blocks, which determines the offset in the memory.
};

/// A permutation of [0, count), which depends on the seed.
class shuffled {
 public:
  shuffled(std::uint64_t count, std::uint64_t seed) noexcept;
  std::uint64_t operator()(std::uint64_t index) const noexcept;

 private:
  std::uint64_t count_;
  std::uint64_t seed_;
  unsigned half_bits_;  // Half the number of bits that `count_` needs.
};

class supply {
 public:
  using clock = std::chrono::steady_clock;

  /// At least one file is needed, and no file may be empty. `passes_max` 0 means no limit.
  supply(std::vector<std::uint64_t> file_bytes, const cell& config, std::uint64_t passes_max);

  /// Returns the number of blocks of one pass over all files, at most the number for `bytes_max`.
  std::uint64_t blocks() const noexcept { return in_a_pass_; }

  /// Starts the warm-up, which the run follows. Must be called before the first next().
  void begin(clock::time_point now);

  /// Reads that complete before this time are not counted. Valid after begin().
  clock::time_point counted_from() const noexcept { return counted_from_; }

  /// Returns false if no block is left. Thread-safe.
  bool next(clock::time_point now, block& out) noexcept;

  /// Ends the supply. Thread-safe.
  void stop() noexcept { stopped_ = true; }

 private:
  const std::vector<std::uint64_t> file_bytes_;
  std::vector<std::uint64_t> first_block_;  // First block of each file, then the block count.
  const std::uint64_t block_bytes_;
  const bool random_;
  const std::chrono::nanoseconds ramp_;
  const std::chrono::nanoseconds lasting_;
  const std::uint64_t blocks_for_bytes_;  // The number of blocks for bytes_max.
  const std::uint64_t in_a_pass_;
  const std::uint64_t blocks_max_;
  const shuffled order_;
  clock::time_point counted_from_;
  clock::time_point end_;
  std::atomic<std::uint64_t> next_ = 0;
  std::atomic<bool> stopped_ = false;
};

}  // namespace ringload::bench
