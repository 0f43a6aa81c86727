// SPDX-License-Identifier: Apache-2.0
#pragma once

// Computes whether two strided tensors overlap, to check the destinations of a fill.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace ringload::inline v0 {

// The bytes of a strided tensor. A run consists of `run_bytes_` contiguous bytes. `repetitions_`
// repeats the run in nested levels, outermost level first. In each level, the distance between two
// repetitions is at least the size of the levels inside.
class footprint {
 public:
  struct repetition {
    std::uint64_t count;
    std::uint64_t pitch_bytes;
  };

  // Returns an empty optional if an address exceeds 64 bits or if two elements share a byte. Also
  // returns an empty optional if the dimensions are not nested. For example, the dimensions of the
  // shape {3, 2} with the strides {2, 3} and 1-byte elements are not nested. A stride may be
  // negative.
  static std::optional<footprint> make(std::uint64_t address, std::uint64_t element_bytes,
                                       std::span<const std::uint64_t> shape,
                                       std::span<const std::int64_t> stride_bytes);

  std::uint64_t begin() const noexcept { return begin_; }
  std::uint64_t end() const noexcept { return end_; }
  bool empty() const noexcept { return begin_ == end_; }
  std::uint64_t runs() const noexcept;

  // Returns true if the two tensors share a byte. The time is proportional to the number of runs of
  // the tensor with fewer runs, times the number of levels of the other tensor.
  bool overlaps(const footprint& peer) const;

 private:
  bool overlaps(std::uint64_t from, std::uint64_t to, std::size_t level,
                std::uint64_t start) const noexcept;
  template <class Visit>
  bool any_run(std::size_t level, std::uint64_t start, const Visit& visit) const;

  std::uint64_t begin_ = 0;
  std::uint64_t end_ = 0;
  std::uint64_t run_bytes_ = 0;
  std::vector<repetition> repetitions_;
};

}  // namespace ringload::inline v0
