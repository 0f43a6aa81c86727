// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which bytes a strided block of memory takes, and whether two of them have a byte in common.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace ringload::inline v0 {

// Bytes [begin, end) of memory, and the runs in it: nested repetitions of `run_bytes` bytes, the
// outermost first, each further apart than what is inside it is long.
class footprint {
 public:
  struct repetition {
    std::uint64_t count;
    std::uint64_t pitch_bytes;
  };

  // Empty where an address leaves 64 bits, or two elements of it share a byte. `stride_bytes` may
  // be negative.
  static std::optional<footprint> make(std::uint64_t address, std::uint64_t element_bytes,
                                       std::span<const std::uint64_t> shape,
                                       std::span<const std::int64_t> stride_bytes);

  std::uint64_t begin() const noexcept { return begin_; }
  std::uint64_t end() const noexcept { return end_; }
  bool empty() const noexcept { return begin_ == end_; }
  std::uint64_t runs() const noexcept;

  // Whether the bytes of `this` and `other` meet. Costs the runs of the one that has fewer, and a
  // division for each level of the other.
  bool meets(const footprint& other) const;

 private:
  bool meets(std::uint64_t from, std::uint64_t to, std::size_t level,
             std::uint64_t at) const noexcept;
  template <class Visit>
  bool any_run(std::size_t level, std::uint64_t at, const Visit& visit) const;

  std::uint64_t begin_ = 0;
  std::uint64_t end_ = 0;
  std::uint64_t run_bytes_ = 0;
  std::vector<repetition> repetitions_;
};

}  // namespace ringload::inline v0
