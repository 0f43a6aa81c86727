// SPDX-License-Identifier: Apache-2.0
#pragma once

// A copy of the bytes of a file that were read while the checkpoint was opened. If a load reads
// these bytes again, verified_source.cpp compares the bytes with the copy. The copy does no I/O.

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "remote/cache/range_set.hpp"

namespace ringload::inline v0::remote_http {

class header_copy {
 public:
  // Copies the bytes that were not copied before. Returns false if the copy would exceed
  // `bytes_max` bytes.
  bool add(std::uint64_t offset, std::span<const std::byte> bytes);
  bool has(byte_range range) const;
  // Returns false if `bytes` differ from the copy. Ignores bytes that were not copied.
  bool equals(std::uint64_t offset, std::span<const std::byte> bytes) const;
  // Returns copied bytes at the beginning of `range`. Returns an empty span if the first byte of
  // `range` was not copied. May return fewer bytes than were copied.
  std::span<const std::byte> find(byte_range range) const;
  void add_ranges(range_set& to) const;

  static constexpr std::uint64_t bytes_max = std::uint64_t{32} << 20;

 private:
  std::map<std::uint64_t, std::vector<std::byte>> parts_;  // Keyed by offset, without overlaps.
  std::uint64_t bytes_ = 0;
};

}  // namespace ringload::inline v0::remote_http
