// SPDX-License-Identifier: Apache-2.0

#include "runtime/mount_model.hpp"

#include <algorithm>

namespace ringload::inline v0::detail {

namespace {

// The limit is raised while the median time of the reads is below this multiple of the shortest.
// The ratio is less than 2, because a busy drive may carry out all admitted reads at once. Each
// read then takes twice as long after the limit was doubled, and must not cause a further raise.
constexpr double waiting_ratio = 1.9;
constexpr std::size_t samples_min = 4;
// The tuner may halve the limit again after a raise. This maximum ends the repetition of raising
// and halving.
constexpr std::uint32_t raises_max = 8;

}  // namespace

bool mount_model::completed(std::uint64_t bytes, duration time, std::uint64_t bytes_max,
                            bool is_full) noexcept {
  if (bytes > 2 * largest_) shortest_ = 0;  // The earlier reads were too small to compare.
  largest_ = std::max(largest_, bytes);
  const bool is_large = 2 * bytes >= largest_;
  const double seconds = std::chrono::duration<double>(time).count();
  if (is_large) shortest_ = shortest_ > 0 ? std::min(shortest_, seconds) : seconds;
  if (!is_full) return false;
  counted_ += bytes;
  if (is_large && sample_count_ < samples_max) samples_[sample_count_++] = seconds;
  if (counted_ < bytes_max) return false;
  const bool is_enough = !skipped_ && sample_count_ >= samples_min && raises_ < raises_max;
  const bool raises = is_enough && median() < waiting_ratio * shortest_;
  if (raises) ++raises_;
  begin_turnover(raises);
  return raises;
}

void mount_model::begin_turnover(bool skipped) noexcept {
  skipped_ = skipped;
  counted_ = 0;
  sample_count_ = 0;
}

double mount_model::median() noexcept {
  const auto end = samples_.begin() + static_cast<std::ptrdiff_t>(sample_count_);
  const auto middle = samples_.begin() + static_cast<std::ptrdiff_t>(sample_count_ / 2);
  std::nth_element(samples_.begin(), middle, end);
  return *middle;
}

}  // namespace ringload::inline v0::detail
