// SPDX-License-Identifier: Apache-2.0
#pragma once

// The two encodings of deltas with an index, which slime, SGLang and ModelExpress read. Both
// compare bytes, for every dtype, and compress each tensor as a single Zstandard frame. Pure
// functions.
//
//   xor        the XOR of all bytes of the old and the new tensor
//   overwrite  the number of changed bytes as u32, their positions as u32 in ascending order, and
//              their new values
//
// decode_xor() and decode_overwrite() convert both encodings to the encodings of delta_code.hpp, so
// that a difference can be undone.

#include <cstddef>
#include <span>
#include <vector>

#include "base/fault.hpp"
#include "delta/delta_code.hpp"

namespace ringload::inline v0 {

// A decoded difference of bytes, which owns its memory.
struct byte_change {
  bool is_sparse = true;
  std::uint64_t elements = 0;  // The size of the tensor in bytes.
  std::vector<std::byte> gaps;
  std::vector<std::byte> planes;

  change_view view() const noexcept { return {is_sparse, 1, elements, gaps, planes}; }
};

// Decodes a frame with the XOR of all bytes. Fails with errc::malformed_stream if the frame does
// not decode to exactly `bytes` bytes.
result<byte_change> decode_xor(std::span<const std::byte> frame, std::uint64_t bytes);
// Decodes a frame with changed bytes. `before` is the old tensor. Fails with errc::malformed_stream
// unless the positions are in ascending order and less than the size of `before`.
result<byte_change> decode_overwrite(std::span<const std::byte> frame,
                                     std::span<const std::byte> before);

// Both functions encode a difference without compression. The versions must have the same size.
std::vector<std::byte> encode_xor(std::span<const std::byte> before,
                                  std::span<const std::byte> after);
// `changed` must be the number of bytes that differ. The size of a version must be at most
// overwrite_bytes_max.
std::vector<std::byte> encode_overwrite(std::span<const std::byte> before,
                                        std::span<const std::byte> after, std::uint64_t changed);

inline constexpr std::uint64_t overwrite_bytes_max = 0xFFFFFFFF;

}  // namespace ringload::inline v0
