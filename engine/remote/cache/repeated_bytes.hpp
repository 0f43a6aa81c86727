// SPDX-License-Identifier: Apache-2.0
#pragma once

// Compares the bytes that two overlapping reads of a file returned. Reads begin and end at page
// boundaries, so reads of adjacent tensors may overlap. Does no I/O.

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

  // Starts a pass over the file, which covers all bytes once, from beginning to end.
  void begin_pass();

  // Adds the next bytes of the pass. `bytes` end at the offset `pass_end`. Allocates no memory.
  void add(std::uint64_t pass_end, std::span<const std::byte> bytes);

  // Compares the bytes that a read returned for `offset` with the bytes of the pass. `pass_end` is
  // the end of the bytes that add() has received. Bytes before `pass_end` are compared immediately.
  // Later bytes are copied, and add() compares the copy. Returns false if the bytes of the pass at
  // `offset` are no longer kept.
  bool compare(std::uint64_t pass_end, std::uint64_t offset, std::span<const std::byte> bytes);

  bool is_contradictory = false;  // Two reads of the same bytes returned different bytes.

 private:
  std::vector<std::byte> tail_;  // The last bytes before `pass_end`.
  // Copies that add() compares, with their offsets.
  std::vector<std::pair<std::uint64_t, std::vector<std::byte>>> pending_copies_;
};

}  // namespace ringload::inline v0::remote_http
