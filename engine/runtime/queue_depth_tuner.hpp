// SPDX-License-Identifier: Apache-2.0
#pragma once

// Finds how many bytes a drive should have in flight, by hill climbing while loads run. A trial
// measures the throughput three times: with the chosen value, with a candidate (twice or half the
// chosen value), and with the chosen value again. A doubled candidate must raise the throughput. A
// halved candidate must only keep the throughput, because fewer bytes in flight mean lower latency.
//
// Measurements of drives are noisy. The candidate becomes the chosen value only if the mean ratio
// of its trials exceeds the required ratio (1.03 or 0.97) by two standard errors.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace ringload::inline v0::detail {

class queue_depth_tuner {
 public:
  using clock = std::chrono::steady_clock;

  // All values are in bytes. 0 < bytes_min <= bytes_at_start <= bytes_max must hold. A trial may
  // increase the chosen value up to `bytes_max`, and raise() up to `raised_bytes_max`.
  queue_depth_tuner(std::uint64_t bytes_min, std::uint64_t bytes_at_start, std::uint64_t bytes_max,
                    std::uint64_t raised_bytes_max = 0) noexcept;

  // Returns how many bytes may be in flight at present. May be called from any thread.
  std::uint64_t bytes() const noexcept { return current_; }

  // Reports that `bytes` were read or written. `idle` must be true if no bytes are in flight and no
  // read or write is waiting. If `idle` is true, discards the current measurement, because the time
  // until the next read or write would distort the measurement. If the discarded measurement was
  // the measurement of the candidate, the trial ends without a result.
  void completed(std::uint64_t bytes, clock::time_point completed_at, bool idle) noexcept;

  // raise() doubles the chosen value without a trial. Used for mounts that are limited by their
  // latency: see mount_model.hpp.
  bool can_raise() const noexcept { return chosen_ < raised_bytes_max_; }
  void raise() noexcept { choose(std::min(raised_bytes_max_, 2 * chosen_)); }

 private:
  // The statistics of all trials of one direction, doubling or halving. A sample is the throughput
  // of the candidate divided by the throughput of the chosen value.
  struct direction {
    bool is_increase;
    std::uint32_t trials = 0;
    double mean = 0;
    double squares = 0;          // Sum of squared deviations from the mean.
    std::uint32_t cooldown = 0;  // Measurements until the next trial may start.
    std::uint32_t refused = 0;   // Consecutive refusals.

    void add(double ratio) noexcept;
    double error() const noexcept;  // Returns the standard error of `mean`.
  };
  // The three measurements of a trial: `before` with the chosen value, `trial` with the candidate,
  // and `after` with the chosen value again.
  enum class phase : std::uint8_t { before, trial, after };

  std::uint64_t candidate(const direction& dir) const noexcept;
  void measured(double rate) noexcept;
  void start_trial() noexcept;
  void give_up_trial() noexcept;
  void decide(direction& dir) noexcept;
  void choose(std::uint64_t bytes) noexcept;
  void apply(std::uint64_t bytes) noexcept;

  const std::uint64_t bytes_min_;
  const std::uint64_t bytes_max_;
  const std::uint64_t raised_bytes_max_;
  std::uint64_t chosen_;
  std::atomic<std::uint64_t> current_;  // chosen_, or the candidate during its measurement.

  // The next four members describe the current measurement. skip_ is the number of bytes that must
  // complete before the measurement starts. These bytes were requested with the previous value.
  std::uint64_t skip_ = 0;
  std::uint64_t counted_ = 0;
  bool running_ = false;
  clock::time_point start_time_;

  phase phase_ = phase::before;
  double before_ = 0;
  double tried_ = 0;
  std::array<direction, 2> directions_{direction{true}, direction{false}};
  std::uint32_t next_ = 0;  // Index into directions_ of the next trial.
  std::uint32_t pause_ = 0;
};

}  // namespace ringload::inline v0::detail
