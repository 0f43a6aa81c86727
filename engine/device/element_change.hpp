// SPDX-License-Identifier: Apache-2.0
#pragma once

// A change of elements in the memory of a device: each changed element is XORed with a value. A
// second application of the same change restores the old elements.

#include <cstddef>
#include <cstdint>
#include <span>

namespace ringload::inline v0 {

// The memory is divided into tiles, so that each position within a tile fits 16 bits. The last tile
// may be shorter. The caller owns all memory.
struct element_change {
  static constexpr std::uint32_t tile_elements = 1 << 14;

  std::span<std::byte> memory;  // On the device. Dense, of any alignment.
  std::uint32_t width = 1;      // Size of an element in bytes: 1, 2, 4 or 8.
  // If not null, the address of memory on the same device, which is copied to `memory` first.
  const std::byte* before = nullptr;
  // The values as byte planes: byte 0 of all values, then byte 1 of all values, and so on.
  std::span<const std::byte> planes;
  // The position of each changed element within its tile, in ascending order. Unused if
  // `tile_begins` is empty.
  std::span<const std::uint16_t> positions = {};
  // Entry t is the index in `positions` of the first changed element of tile t. One more entry at
  // the end is the number of all changed elements. If empty, `planes` has a value for each element.
  std::span<const std::uint32_t> tile_begins = {};

  std::uint64_t elements() const noexcept { return memory.size() / width; }
  std::uint64_t tiles() const noexcept { return (elements() + tile_elements - 1) / tile_elements; }
  std::uint64_t changed() const noexcept { return planes.size() / width; }
};

}  // namespace ringload::inline v0
