// SPDX-License-Identifier: Apache-2.0
#pragma once

// Encodes the difference between two versions of a tensor, and applies an encoded difference. Pure
// functions.
//
// For each changed element, the difference contains the exclusive or (XOR) of the old and the new
// bits. Therefore the same difference also converts the new version to the old version. There are
// two encodings:
//
//   sparse   for each changed element: its gap as LEB128, and its XOR. The gap is the number of
//            unchanged elements between the previous changed element and this element.
//   dense    the XOR of all elements, changed or not
//
// The XOR values are stored as byte planes: first byte 0 of all elements, then byte 1 of all
// elements, and so on. If only the low bytes of most weights change, the planes of the high bytes
// contain mostly zeros and compress well.

#include <cstddef>
#include <cstdint>
#include <ringload/dtype.hpp>
#include <span>
#include <vector>

#include "base/fault.hpp"

namespace ringload::inline v0 {

// Returns the size of the elements that are compared, in bytes: 1, 2, 4 or 8. Elements of packed
// types are compared byte by byte. Complex numbers of 16 bytes are compared as two elements of 8
// bytes.
std::uint32_t delta_width(dtype type) noexcept;

// count_changed(), encode_sparse() and encode_dense() require two versions of the same size, which
// must be a multiple of `width`.

// Returns the number of elements that differ.
std::uint64_t count_changed(std::span<const std::byte> before, std::span<const std::byte> after,
                            std::uint32_t width) noexcept;

struct sparse_change {
  std::vector<std::byte> gaps;
  std::vector<std::byte> planes;
};

// Encodes only the changed elements. `changed` must be the result of count_changed().
sparse_change encode_sparse(std::span<const std::byte> before, std::span<const std::byte> after,
                            std::uint32_t width, std::uint64_t changed);

// Appends one gap to `gaps`, as LEB128.
void append_gap(std::vector<std::byte>& gaps, std::uint64_t gap);

// Encodes all elements. Returns the byte planes of their XOR values.
std::vector<std::byte> encode_dense(std::span<const std::byte> before,
                                    std::span<const std::byte> after, std::uint32_t width);

// A reference to an encoded difference. The caller owns the memory.
struct change_view {
  bool is_sparse = true;
  std::uint32_t width = 1;
  std::uint64_t elements = 0;       // Size of the tensor in bytes, divided by `width`.
  std::span<const std::byte> gaps;  // Empty if the difference is dense.
  std::span<const std::byte> planes;

  std::uint64_t changed() const noexcept { return planes.size() / width; }
};

// Fails with errc::malformed_stream unless the difference fits a tensor of `change.elements`
// elements.
result<void> check_change(const change_view& change);

// The positions of the changed elements of a sparse difference, for a tensor that is divided into
// tiles. See device/element_change.hpp.
struct tiled_positions {
  std::vector<std::uint16_t> positions;  // The index of each changed element within its tile.
  // For each tile, the index in `positions` of its first changed element. Then the number of all
  // changed elements.
  std::vector<std::uint32_t> tile_begins;
};

// The difference must be sparse, must have passed check_change(), and must have less than 2^32
// changed elements. `tile_elements` must be at most 65,536.
tiled_positions positions_in_tiles(const change_view& change, std::uint32_t tile_elements);

// Applies a difference to a tensor, region by region, in order. The difference must have passed
// check_change() and must outlive this object.
class change_cursor {
 public:
  explicit change_cursor(const change_view& change) noexcept;

  // Applies the difference to the next region of the tensor. The size of `region` must be a
  // multiple of the width.
  void apply(std::span<std::byte> region) noexcept;

 private:
  template <class Element>
  void apply_sparse(std::span<std::byte> region) noexcept;
  template <class Element>
  void apply_dense(std::span<std::byte> region) noexcept;

  const change_view change_;
  const std::uint64_t changed_;
  std::uint64_t position_ = 0;      // Index of the first element of the next region.
  std::uint64_t next_changed_ = 0;  // Index of the next changed element.
  // Number of changed elements before next_changed_. Also the index of the next XOR value.
  std::uint64_t change_index_ = 0;
  const std::byte* gap_ = nullptr;
};

}  // namespace ringload::inline v0
