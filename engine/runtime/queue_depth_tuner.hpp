// SPDX-License-Identifier: Apache-2.0
#pragma once

// Finds how many bytes a drive should have in flight, by hill climbing during loads. A trial
// doubles or halves the value between two measurements of the present value. Doubling must raise
// throughput. Halving need only keep throughput, because a shorter queue means lower latency.
//
// Drives are noisy, so the value changes only if the gain is two standard errors from the
// threshold. Otherwise the value stays.

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace ringload::inline v0::detail {

class queue_depth_tuner {
 public:
  using clock = std::chrono::steady_clock;

  // All in bytes, with 0 < least <= first <= most.
  queue_depth_tuner(std::uint64_t least, std::uint64_t first, std::uint64_t most) noexcept;

  // The bytes in flight allowed at present. Any thread.
  std::uint64_t bytes() const noexcept { return current_; }

  // `bytes` have been read. `idle`: no read is in flight or waiting, so the time until the next
  // read does not measure the drive. An idle drive ends the trial without a result.
  void completed(std::uint64_t bytes, clock::time_point when, bool idle) noexcept;

 private:
  // Doubling or halving, with the statistics of its trials. A sample is the ratio of the rate of
  // the candidate to the rate of the chosen value.
  struct direction {
    bool up;
    std::uint32_t trials = 0;
    double mean = 0;
    double squares = 0;          // Sum of the squared distances from the mean.
    std::uint32_t cooldown = 0;  // Measurements until the next trial.
    std::uint32_t refused = 0;   // Refusals in a row.

    void add(double ratio) noexcept;
    double error() const noexcept;  // Standard error of the mean.
  };
  // A trial is three measurements: the chosen value, the candidate, the chosen value again.
  enum class phase : std::uint8_t { before, trial, after };

  std::uint64_t candidate(const direction& dir) const noexcept;
  void measured(double rate) noexcept;
  void start_trial() noexcept;
  void give_up_trial() noexcept;
  void decide(direction& dir) noexcept;
  void apply(std::uint64_t bytes) noexcept;

  const std::uint64_t least_;
  const std::uint64_t most_;
  std::uint64_t chosen_;                // Present value.
  std::atomic<std::uint64_t> current_;  // chosen_, or the candidate on trial.

  // Current measurement.
  std::uint64_t skip_ = 0;  // Bytes that belong to the previous value.
  std::uint64_t counted_ = 0;
  bool running_ = false;
  clock::time_point begun_;

  phase phase_ = phase::before;
  double before_ = 0;
  double tried_ = 0;
  std::array<direction, 2> directions_{direction{true}, direction{false}};
  std::uint32_t next_ = 0;  // Index into directions_.
  std::uint32_t pause_ = 0;
};

}  // namespace ringload::inline v0::detail
