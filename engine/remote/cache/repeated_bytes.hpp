// SPDX-License-Identifier: Apache-2.0
#pragma once

// Compares the bytes that two overlapping reads of a file returned. Reads begin and end at page
// boundaries, so reads of adjacent tensors may overlap by a few bytes. Does no I/O.

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace ringload::inline v0::remote_http {

class repeated_bytes {
 public:
  // Maximum size of an overlap that can be compared.
  static constexpr std::uint64_t bytes_max = std::uint64_t{16} << 10;

  void begin_pass();

  // A pass reads the file once, from beginning to end. The caller must pass the bytes in this
  // order. `bytes` end at the offset `front`. Does not allocate memory.
  void pass(std::uint64_t front, std::span<const std::byte> bytes);

  // Compares the bytes that a read returned for `offset` with the bytes of the pass. Bytes before
  // `front` are compared at once. Later bytes are copied, and pass() compares the copy. Returns
  // false if the bytes of the pass at `offset` are no longer kept.
  bool compare(std::uint64_t front, std::uint64_t offset, std::span<const std::byte> bytes);

  bool is_contradictory = false;  // Two reads of the same bytes returned different bytes.

 private:
  std::vector<std::byte> tail_;  // The last bytes before `front`.
  std::vector<std::pair<std::uint64_t, std::vector<std::byte>>> later_;  // Offset, bytes.
};

}  // namespace ringload::inline v0::remote_http
