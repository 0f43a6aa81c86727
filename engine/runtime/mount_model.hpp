// SPDX-License-Identifier: Apache-2.0
#pragma once

// Detects a mount whose throughput is limited by its latency, from the durations of its reads. The
// time of a read is the sum of the latency, the time to transfer its own bytes, and the time that
// the read waits for other reads. While reads wait for less time than a single read takes, the
// bytes in flight are less than twice the product of latency and bandwidth. Then more bytes in
// flight increase the throughput, or replace the bytes of reads that stall. Pure arithmetic: the
// caller passes all times.
//
// The queue_depth_tuner needs several measurements of 64 MiB or more to find the same limit, and
// halves the limit later if fewer bytes are enough. This model needs one turnover: the completion
// of as many bytes as the limit allows in flight.

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace ringload::inline v0::detail {

class mount_model {
 public:
  using duration = std::chrono::steady_clock::duration;

  // Reports a read. Returns true if the limit for the bytes in flight, which is `bytes_max` at
  // present, must be doubled. `is_full` must be true if the limit had no room for another read of
  // this size. If `is_full` is false, memory or the processors limit the throughput, and raising
  // the limit has no effect.
  bool completed(std::uint64_t bytes, duration time, std::uint64_t bytes_max,
                 bool is_full) noexcept;

 private:
  static constexpr std::size_t samples_max = 64;

  void begin_turnover(bool skipped) noexcept;
  double median() noexcept;  // The median of the samples of this turnover.

  // The largest read so far. Reads of less than half of this size are not sampled.
  std::uint64_t largest_ = 0;
  // The shortest time in seconds of a read of at least half of this size. 0 before any read.
  double shortest_ = 0;

  // The current turnover. The turnover after a raise is skipped, because its reads started with the
  // former limit.
  bool skipped_ = false;
  std::uint64_t counted_ = 0;
  std::array<double, samples_max> samples_ = {};
  std::size_t sample_count_ = 0;

  std::uint32_t raises_ = 0;
};

}  // namespace ringload::inline v0::detail
