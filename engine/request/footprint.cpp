// SPDX-License-Identifier: Apache-2.0
#include "request/footprint.hpp"

#include <algorithm>
#include <limits>

#include "base/checked.hpp"

namespace ringload::inline v0 {

std::optional<footprint> footprint::make(std::uint64_t address, std::uint64_t element_bytes,
                                         std::span<const std::uint64_t> shape,
                                         std::span<const std::int64_t> stride_bytes) {
  footprint made;
  made.begin_ = made.end_ = address;
  if (std::ranges::find(shape, 0U) != shape.end() || element_bytes == 0) return made;
  made.run_bytes_ = element_bytes;
  std::uint64_t below = 0;
  std::uint64_t above = element_bytes;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    const bool back = stride_bytes[d] < 0;
    const auto step = static_cast<std::uint64_t>(stride_bytes[d]);
    const std::uint64_t pitch = back ? 0 - step : step;
    const auto span = checked_multiply(pitch, shape[d] - 1);
    const auto sum = span ? checked_add(back ? below : above, *span) : std::nullopt;
    if (!sum) return std::nullopt;
    (back ? below : above) = *sum;
    made.repetitions_.push_back({shape[d], pitch});
  }
  const auto end = checked_add(address, above);
  if (below > address || !end) return std::nullopt;
  made.begin_ = address - below;
  made.end_ = *end;

  // Innermost first, to merge contiguous levels.
  std::ranges::sort(made.repetitions_, {}, &repetition::pitch_bytes);
  std::vector<repetition> apart;
  std::uint64_t inner_bytes = element_bytes;
  for (const repetition& each : made.repetitions_) {
    if (each.pitch_bytes < inner_bytes) return std::nullopt;
    const std::uint64_t bytes = each.pitch_bytes * (each.count - 1) + inner_bytes;
    if (apart.empty() && each.pitch_bytes == made.run_bytes_) {
      made.run_bytes_ = bytes;
    } else {
      apart.push_back(each);
    }
    inner_bytes = bytes;
  }
  made.repetitions_.assign(apart.rbegin(), apart.rend());
  return made;
}

std::uint64_t footprint::runs() const noexcept {
  std::uint64_t count = empty() ? 0 : 1;
  for (const repetition& each : repetitions_) {
    count = checked_multiply(count, each.count).value_or(std::numeric_limits<std::uint64_t>::max());
  }
  return count;
}

template <class Visit>
bool footprint::any_run(std::size_t level, std::uint64_t at, const Visit& visit) const {
  if (level == repetitions_.size()) return visit(at, at + run_bytes_);
  const auto [count, pitch] = repetitions_[level];
  for (std::uint64_t i = 0; i < count; ++i) {
    if (any_run(level + 1, at + i * pitch, visit)) return true;
  }
  return false;
}

// Whether the levels from `level` on, beginning at `at`, contain a byte of [from, to).
bool footprint::meets(std::uint64_t from, std::uint64_t to, std::size_t level,
                      std::uint64_t at) const noexcept {
  if (level == repetitions_.size()) return from < at + run_bytes_ && at < to;
  const auto [count, pitch] = repetitions_[level];
  // All repetitions that begin before `from` also end before it, except the last of them.
  const std::uint64_t first = from <= at ? 0 : std::min((from - at) / pitch, count - 1);
  for (std::uint64_t i = first; i < count && at + i * pitch < to; ++i) {
    if (meets(from, to, level + 1, at + i * pitch)) return true;
    // That one has no byte in the range, but the next begins in it, with its first byte.
    if (i + 1 < count && at + (i + 1) * pitch < to && from <= at + (i + 1) * pitch) return true;
  }
  return false;
}

bool footprint::meets(const footprint& other) const {
  if (empty() || other.empty() || end_ <= other.begin_ || other.end_ <= begin_) return false;
  if (runs() > other.runs()) return other.meets(*this);
  return any_run(0, begin_, [&](std::uint64_t from, std::uint64_t to) {
    return other.meets(from, to, 0, other.begin_);
  });
}

}  // namespace ringload::inline v0
