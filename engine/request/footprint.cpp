// SPDX-License-Identifier: Apache-2.0

#include "request/footprint.hpp"

#include <algorithm>
#include <limits>

#include "base/checked.hpp"

namespace ringload::inline v0 {

std::optional<footprint> footprint::make(std::uint64_t address, std::uint64_t element_bytes,
                                         std::span<const std::uint64_t> shape,
                                         std::span<const std::int64_t> stride_bytes) {
  footprint out;
  out.begin_ = out.end_ = address;
  if (std::ranges::find(shape, 0U) != shape.end() || element_bytes == 0) return out;
  out.run_bytes_ = element_bytes;
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
    out.repetitions_.push_back({shape[d], pitch});
  }
  const auto end = checked_add(address, above);
  if (below > address || !end) return std::nullopt;
  out.begin_ = address - below;
  out.end_ = *end;

  // Sorts the levels from the innermost to the outermost, so that contiguous levels can be merged.
  std::ranges::sort(out.repetitions_, {}, &repetition::pitch_bytes);
  std::vector<repetition> outer_levels;
  std::uint64_t inner_bytes = element_bytes;
  for (const repetition& nested : out.repetitions_) {
    if (nested.pitch_bytes < inner_bytes) return std::nullopt;
    const std::uint64_t bytes = nested.pitch_bytes * (nested.count - 1) + inner_bytes;
    if (outer_levels.empty() && nested.pitch_bytes == out.run_bytes_) {
      out.run_bytes_ = bytes;
    } else {
      outer_levels.push_back(nested);
    }
    inner_bytes = bytes;
  }
  out.repetitions_.assign(outer_levels.rbegin(), outer_levels.rend());
  return out;
}

std::uint64_t footprint::runs() const noexcept {
  std::uint64_t count = empty() ? 0 : 1;
  for (const repetition& nested : repetitions_) {
    count =
        checked_multiply(count, nested.count).value_or(std::numeric_limits<std::uint64_t>::max());
  }
  return count;
}

template <class Visit>
bool footprint::any_run(std::size_t level, std::uint64_t start, const Visit& visit) const {
  if (level == repetitions_.size()) return visit(start, start + run_bytes_);
  const auto [count, pitch] = repetitions_[level];
  for (std::uint64_t i = 0; i < count; ++i) {
    if (any_run(level + 1, start + i * pitch, visit)) return true;
  }
  return false;
}

// Returns true if [from, to) contains a byte of the level `level`. The first repetition of the
// level begins at `start`.
bool footprint::overlaps(std::uint64_t from, std::uint64_t to, std::size_t level,
                         std::uint64_t start) const noexcept {
  if (level == repetitions_.size()) return from < start + run_bytes_ && start < to;
  const auto [count, pitch] = repetitions_[level];
  // The loop begins with the last repetition that does not begin after `from`. Earlier repetitions
  // have no byte in the range.
  const std::uint64_t first = from <= start ? 0 : std::min((from - start) / pitch, count - 1);
  for (std::uint64_t i = first; i < count && start + i * pitch < to; ++i) {
    if (overlaps(from, to, level + 1, start + i * pitch)) return true;
    // Repetition `i` has no byte in the range, but the first byte of the next repetition is in the
    // range.
    if (i + 1 < count && start + (i + 1) * pitch < to && from <= start + (i + 1) * pitch)
      return true;
  }
  return false;
}

bool footprint::overlaps(const footprint& peer) const {
  if (empty() || peer.empty() || end_ <= peer.begin_ || peer.end_ <= begin_) return false;
  if (runs() > peer.runs()) return peer.overlaps(*this);
  return any_run(0, begin_, [&](std::uint64_t from, std::uint64_t to) {
    return peer.overlaps(from, to, 0, peer.begin_);
  });
}

}  // namespace ringload::inline v0
