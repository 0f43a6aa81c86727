// SPDX-License-Identifier: Apache-2.0
#pragma once

// Describes a copy within the memory of one device.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace ringload::inline v0 {

// Copies `rows` rows of `row_bytes` bytes. The source and the destination must not overlap.
struct row_copy {
  const std::byte* from = nullptr;  // If null, the bytes of the destination become 0.
  std::byte* into = nullptr;
  std::uint64_t row_bytes = 0;
  std::uint64_t rows = 1;  // Must be 1 if `from` is null.
  // Distances between the beginnings of neighbouring rows, in bytes. At least `row_bytes`. Unused
  // if there is one row.
  std::uint64_t from_stride = 0;
  std::uint64_t into_stride = 0;

  bool is_empty() const noexcept { return row_bytes == 0 || rows == 0; }
};

// Makes the copies in host memory.
inline void copy_rows_on_host(std::span<const row_copy> copies) noexcept {
  for (const row_copy& copy : copies) {
    if (copy.is_empty()) continue;
    if (copy.from == nullptr) {
      std::memset(copy.into, 0, copy.row_bytes);
      continue;
    }
    for (std::uint64_t row = 0; row < copy.rows; ++row) {
      std::memcpy(copy.into + row * copy.into_stride, copy.from + row * copy.from_stride,
                  copy.row_bytes);
    }
  }
}

}  // namespace ringload::inline v0
