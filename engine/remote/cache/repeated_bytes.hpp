// SPDX-License-Identifier: Apache-2.0
#pragma once

// Compares the bytes that two reads of a file share. Reads begin and end at pages, so reads of
// adjacent tensors share a few bytes. Pure class without I/O.

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace ringload::inline v0::remote_http {

class repeated_bytes {
 public:
  // Maximum number of bytes that two reads share.
  static constexpr std::uint64_t bytes_max = std::uint64_t{16} << 10;

  void begin_pass();

  // Must be called with the next bytes of the pass, which end at the offset `front`. Does not
  // allocate memory.
  void pass(std::uint64_t front, std::span<const std::byte> bytes);

  // Compares bytes at `offset` with the same bytes of another read. Bytes before `front` are
  // compared at once. Other bytes are copied, and pass() compares them. Returns false if bytes
  // before `front` are no longer kept.
  bool compare(std::uint64_t front, std::uint64_t offset, std::span<const std::byte> bytes);

  bool is_contradictory = false;  // Two reads of the same bytes returned different bytes.

 private:
  std::vector<std::byte> tail_;  // The last bytes before `front`.
  std::vector<std::pair<std::uint64_t, std::vector<std::byte>>> later_;  // With their offset.
};

}  // namespace ringload::inline v0::remote_http
