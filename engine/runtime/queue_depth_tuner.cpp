// SPDX-License-Identifier: Apache-2.0

#include "runtime/queue_depth_tuner.hpp"

#include <algorithm>
#include <cmath>

namespace ringload::inline v0::detail {

namespace {

// A measurement ends after 64 MiB or after 4 times the bytes in flight, whichever is larger. A
// drive of 10 GB/s needs about 7 ms for 64 MiB.
constexpr std::uint64_t measured_bytes_min = std::uint64_t{64} << 20;
constexpr std::uint64_t turnovers = 4;

// A candidate is chosen if its throughput, divided by the throughput of the value in use, is at
// least this ratio. The first ratio is for a doubled candidate, the second for a halved candidate.
constexpr double doubling_ratio_min = 1.03;
constexpr double halving_ratio_min = 0.97;
constexpr double standard_errors = 2;

// The assumed relative difference between two measurements under the same conditions. error() adds
// the square of this difference to the sum of squared deviations, so that the result of a few
// trials is not regarded as certain.
constexpr double spread_expected = 0.15;
constexpr std::uint32_t trials_min = 2;
// After 32 trials, older trials lose weight, because the speed of a drive can change.
constexpr std::uint32_t trials_remembered = 32;

// After each trial, the next 2 measurements start no trial. After a refusal, the refused direction
// is not tried during 16 measurements. Each further refusal doubles this number, at most 4 times.
constexpr std::uint32_t pause_between = 2;
constexpr std::uint32_t cooldown_min = 16;
constexpr std::uint32_t cooldown_doublings_max = 4;

}  // namespace

queue_depth_tuner::queue_depth_tuner(std::uint64_t bytes_min, std::uint64_t bytes_at_start,
                                     std::uint64_t bytes_max,
                                     std::uint64_t raised_bytes_max) noexcept
    : bytes_min_(bytes_min),
      bytes_max_(bytes_max),
      raised_bytes_max_(std::max(bytes_max, raised_bytes_max)),
      chosen_(bytes_at_start),
      current_(bytes_at_start) {}

void queue_depth_tuner::direction::add(double ratio) noexcept {
  if (trials == trials_remembered) {
    squares -= squares / trials;
  } else {
    ++trials;
  }
  const double before = ratio - mean;
  mean += before / trials;
  squares += before * (ratio - mean);
}

double queue_depth_tuner::direction::error() const noexcept {
  return std::sqrt(squares + spread_expected * spread_expected) / trials;
}

std::uint64_t queue_depth_tuner::candidate(const direction& dir) const noexcept {
  return dir.is_increase ? std::min(std::max(chosen_, bytes_max_), 2 * chosen_)
                         : std::max(bytes_min_, chosen_ / 2);
}

void queue_depth_tuner::completed(std::uint64_t bytes, clock::time_point completed_at,
                                  bool idle) noexcept {
  if (idle) {
    running_ = false;
    counted_ = 0;
    if (phase_ == phase::trial) give_up_trial();
    return;
  }
  if (skip_ > 0) {
    skip_ -= std::min(skip_, bytes);
    if (skip_ > 0) return;
    bytes = 0;
  }
  if (!running_) {
    running_ = true;
    start_time_ = completed_at;
    return;
  }
  counted_ += bytes;
  if (counted_ < std::max(measured_bytes_min, turnovers * current_.load())) return;
  const double seconds = std::chrono::duration<double>(completed_at - start_time_).count();
  const double rate = seconds > 0 ? static_cast<double>(counted_) / seconds : 0;
  counted_ = 0;
  start_time_ = completed_at;
  if (rate > 0) measured(rate);
}

void queue_depth_tuner::measured(double rate) noexcept {
  for (direction& dir : directions_) dir.cooldown -= std::min(dir.cooldown, 1U);
  switch (phase_) {
    case phase::before:
      before_ = rate;
      start_trial();
      break;
    case phase::trial:
      tried_ = rate;
      phase_ = phase::after;
      apply(chosen_);
      break;
    case phase::after: {
      direction& dir = directions_[next_];
      dir.add(2 * tried_ / (before_ + rate));
      before_ = rate;
      phase_ = phase::before;
      pause_ = pause_between;
      decide(dir);
      next_ = 1 - next_;
      break;
    }
  }
}

// Starts a trial of the next direction whose cooldown is over. Does nothing during the pause after
// a trial.
void queue_depth_tuner::start_trial() noexcept {
  if (pause_ > 0) {
    --pause_;
    return;
  }
  for (std::uint32_t i = 0; i < directions_.size(); ++i, next_ = 1 - next_) {
    const direction& dir = directions_[next_];
    if (dir.cooldown > 0 || candidate(dir) == chosen_) continue;
    phase_ = phase::trial;
    apply(candidate(dir));
    return;
  }
}

// Called when the drive becomes idle during the measurement of a candidate. If the candidate admits
// the reads of all workers at once, the drive is idle whenever all workers copy, so the trial would
// never end without this function.
void queue_depth_tuner::give_up_trial() noexcept {
  phase_ = phase::before;
  pause_ = pause_between;
  next_ = 1 - next_;
  apply(chosen_);
}

void queue_depth_tuner::decide(direction& dir) noexcept {
  if (dir.trials < trials_min) return;
  const double required_ratio = dir.is_increase ? doubling_ratio_min : halving_ratio_min;
  const double uncertainty = standard_errors * dir.error();
  if (dir.mean - uncertainty > required_ratio) {
    choose(candidate(dir));
  } else if (dir.mean + uncertainty < required_ratio) {
    const std::uint32_t refused = dir.refused;
    dir = direction{dir.is_increase};
    dir.cooldown = cooldown_min << std::min(refused, cooldown_doublings_max);
    dir.refused = refused + 1;
  }
}

void queue_depth_tuner::choose(std::uint64_t bytes) noexcept {
  chosen_ = bytes;
  directions_ = {direction{true}, direction{false}};
  phase_ = phase::before;
  apply(chosen_);
}

void queue_depth_tuner::apply(std::uint64_t bytes) noexcept {
  if (bytes == current_) return;
  skip_ = std::max(current_.load(), bytes);
  current_ = bytes;
  running_ = false;
  counted_ = 0;
}

}  // namespace ringload::inline v0::detail
