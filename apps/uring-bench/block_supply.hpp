// SPDX-License-Identifier: Apache-2.0
#pragma once

// Hands out the blocks to read: in order, or each once in a pseudo-random order, until the limit of
// bytes, passes or time.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include "config.hpp"

namespace ringload::bench {

struct block {
  std::uint32_t file = 0;
  std::uint32_t bytes = 0;  // The last one of a file may be smaller than the others.
  std::uint64_t file_offset = 0;
  std::uint64_t place = 0;  // Its number among all blocks: where it lands in a region.
};

/// A permutation of [0, count), another one for each seed: every number once.
class shuffled {
 public:
  shuffled(std::uint64_t count, std::uint64_t seed) noexcept;
  std::uint64_t operator()(std::uint64_t index) const noexcept;

 private:
  std::uint64_t count_;
  std::uint64_t seed_;
  unsigned half_bits_;  // Of numbers of an even number of bits, just enough for `count_`.
};

class supply {
 public:
  using clock = std::chrono::steady_clock;

  /// At least one file, none of them empty. `passes_max` 0: no bound.
  supply(std::vector<std::uint64_t> file_bytes, const cell& what, std::uint64_t passes_max);

  /// The blocks of one pass: of all files, or as many as `bytes_max` allows.
  std::uint64_t blocks() const noexcept { return in_a_pass_; }

  /// Starts the clock of the warm-up, then of the run. Before the first next(), by one thread.
  void begin(clock::time_point now);

  /// Reads that complete earlier are not counted. After begin().
  clock::time_point counted_from() const noexcept { return counted_from_; }

  /// Any thread. False: no block is left.
  bool next(clock::time_point now, block& out) noexcept;

  /// Ends the supply. Any thread.
  void stop() noexcept { stopped_ = true; }

 private:
  const std::vector<std::uint64_t> file_bytes_;
  std::vector<std::uint64_t> first_block_;  // Of each file, and one more at the end.
  const std::uint64_t block_bytes_;
  const bool random_;
  const std::chrono::nanoseconds ramp_;
  const std::chrono::nanoseconds lasting_;
  const std::uint64_t wanted_;  // Blocks that hold bytes_max.
  const std::uint64_t in_a_pass_;
  const std::uint64_t blocks_max_;
  const shuffled order_;
  clock::time_point counted_from_;
  clock::time_point end_;
  std::atomic<std::uint64_t> next_ = 0;
  std::atomic<bool> stopped_ = false;
};

}  // namespace ringload::bench
