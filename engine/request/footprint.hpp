// SPDX-License-Identifier: Apache-2.0
#pragma once

// The bytes that a strided block of memory covers, and whether two such blocks overlap.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace ringload::inline v0 {

// Bytes [begin, end) of memory, and its runs: nested repetitions of `run_bytes` bytes, outermost
// first. The stride of each level is larger than the extent of the inner levels.
class footprint {
 public:
  struct repetition {
    std::uint64_t count;
    std::uint64_t pitch_bytes;
  };

  // Empty if an address overflows 64 bits, or two elements share a byte. `stride_bytes` may be
  // negative.
  static std::optional<footprint> make(std::uint64_t address, std::uint64_t element_bytes,
                                       std::span<const std::uint64_t> shape,
                                       std::span<const std::int64_t> stride_bytes);

  std::uint64_t begin() const noexcept { return begin_; }
  std::uint64_t end() const noexcept { return end_; }
  bool empty() const noexcept { return begin_ == end_; }
  std::uint64_t runs() const noexcept;

  // Returns true if the footprints share a byte. Cost: the smaller number of runs, times the number
  // of levels of the other footprint.
  bool meets(const footprint& peer) const;

 private:
  bool meets(std::uint64_t from, std::uint64_t to, std::size_t level,
             std::uint64_t start) const noexcept;
  template <class Visit>
  bool any_run(std::size_t level, std::uint64_t start, const Visit& visit) const;

  std::uint64_t begin_ = 0;
  std::uint64_t end_ = 0;
  std::uint64_t run_bytes_ = 0;
  std::vector<repetition> repetitions_;
};

}  // namespace ringload::inline v0
