// SPDX-License-Identifier: Apache-2.0
#pragma once

// How many bytes a drive is to have at once, found by trying while it works: twice as many and half
// as many, each between two measurements of what is used at present. More are worth having only for
// their throughput, fewer always, for who awaits a tensor waits for what went before it.
//
// Drives are noisy, so a change is made only where it is surely right: two standard errors away
// from what is asked of it. In doubt all stays as it is.

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace ringload::inline v0::detail {

class window {
 public:
  using clock = std::chrono::steady_clock;

  // In bytes, 0 < least <= first <= most.
  window(std::uint64_t least, std::uint64_t first, std::uint64_t most) noexcept;

  // What the drive is to have at once, now. Any thread.
  std::uint64_t bytes() const noexcept { return now_; }

  // So many have come back. `idle`: the drive has none left and nobody brings more, so that the
  // time until the next says nothing about it.
  void came_back(std::uint64_t bytes, clock::time_point when, bool idle) noexcept;

 private:
  // Twice or half of what is used, and what is known of it: how its rate stands to that of what is
  // used.
  struct direction {
    bool up;
    std::uint32_t trials = 0;
    double mean = 0;
    double squares = 0;         // Of the distances from the mean, summed.
    std::uint32_t rest = 0;     // Measurements to go before it is tried again.
    std::uint32_t refused = 0;  // Times in a row.

    void add(double ratio) noexcept;
    double error() const noexcept;  // The mean's.
  };
  // One measurement: of what is used, of what is tried, and of what is used once more.
  enum class phase : std::uint8_t { before, trial, after };

  std::uint64_t beside(const direction& one) const noexcept;
  void measured(double rate) noexcept;
  void choose() noexcept;
  void judge(direction& one) noexcept;
  void use(std::uint64_t bytes) noexcept;

  const std::uint64_t least_;
  const std::uint64_t most_;
  std::uint64_t home_;              // What is used.
  std::atomic<std::uint64_t> now_;  // That, or what is being tried.

  // The measurement under way.
  std::uint64_t skip_ = 0;  // Bytes that belong to what was before.
  std::uint64_t counted_ = 0;
  bool running_ = false;
  clock::time_point begun_;

  phase phase_ = phase::before;
  double before_ = 0;
  double tried_ = 0;
  std::array<direction, 2> directions_{direction{true}, direction{false}};
  std::uint32_t next_ = 0;  // Of directions_.
  std::uint32_t pause_ = 0;
};

}  // namespace ringload::inline v0::detail
