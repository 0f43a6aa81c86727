// SPDX-License-Identifier: Apache-2.0
#pragma once

// A copy of the bytes of a file that were read while its checkpoint was opened. Used to compare
// these bytes if a load reads them again. Pure class without I/O.

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "remote/cache/range_set.hpp"

namespace ringload::inline v0::remote_http {

class header_copy {
 public:
  // Keeps the bytes that are not present. Returns false if more than `bytes_max` bytes would be
  // kept.
  bool add(std::uint64_t offset, std::span<const std::byte> bytes);
  bool has(byte_range range) const;
  // Returns false if the bytes differ from bytes that are present.
  bool equals(std::uint64_t offset, std::span<const std::byte> bytes) const;
  // Returns the present bytes at the beginning of the range. Returns an empty span if the first
  // byte is not present.
  std::span<const std::byte> find(byte_range range) const;
  void add_ranges(range_set& to) const;

  static constexpr std::uint64_t bytes_max = std::uint64_t{32} << 20;

 private:
  std::map<std::uint64_t, std::vector<std::byte>> parts_;  // By offset. No overlaps.
  std::uint64_t bytes_ = 0;
};

}  // namespace ringload::inline v0::remote_http
