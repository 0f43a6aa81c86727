// SPDX-License-Identifier: Apache-2.0
#pragma once

// The input of planning: where the bytes of each tensor are stored, which of its elements are
// wanted, and their destination.
//
// A wanted_tensor without a form is contiguous, wanted whole, and loaded into the load's arena.
// Everything else is described by its tensor_form. All spans and pointers belong to the caller and
// are only used during make_plan.

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/numeric/convert_float.hpp"
#include "base/range.hpp"

namespace ringload::inline v0 {

// A run of stored bytes that contains boxes of elements.
struct wanted_stream {
  enum class kind : std::uint8_t {
    raw,        // The bytes of the file, unchanged.
    decoded,    // Decoded from the first byte to the last.
    in_memory,  // Decoded from memory, without a file or a read.
  };

  kind storage = kind::raw;
  std::uint32_t file = 0;
  std::uint64_t offset = 0;         // From the beginning of the file.
  std::uint64_t bytes = 0;          // In the file.
  std::uint64_t decoded_bytes = 0;  // Equals `bytes` for a raw stream.
};

// A box of a tensor's elements in a stream. Each span has one entry for each dimension of the
// shape, outermost first.
struct stored_box {
  std::uint32_t stream = 0;      // Index in plan_input::streams.
  std::uint64_t first_byte = 0;  // Offset of the element at `origin` in the decoded stream.
  std::span<const std::uint64_t> origin;
  std::span<const std::uint64_t> extent;
  std::span<const std::uint64_t> stride_bytes;  // 0 repeats. Ignored below 8 bits an element.
};

struct tensor_form {
  static constexpr std::uint32_t no_block = ~std::uint32_t{0};

  // The stored shape. Only used with pieces, a box, strides or a byte swap. If quantised blocks are
  // converted, one dimension counts blocks, for example of 144 bytes.
  std::span<const std::uint64_t> shape;
  // Bits of one element or block. With 4 or 6, a box must begin and end on whole bytes in each row.
  std::uint32_t element_bits = 8;
  std::uint8_t swap_bytes =
      0;  // Size of the units whose bytes are reversed: 2, 4 or 8; 0: no swap.
  // True: the elements lie in `pieces`. False: row-major from wanted_tensor::offset on.
  bool in_pieces = false;
  // Disjoint boxes. Below 8 bits an element: a single box of all elements.
  std::span<const stored_box> pieces;
  // One stored element, for all elements outside the pieces; empty: zeros.
  std::span<const std::byte> fill;

  // One range for each dimension of the shape; empty: the whole tensor.
  std::span<const range> box;

  // Destination: the tensor's arena, which gives it a place of its own; or `block`, arena memory
  // that several tensors share; or caller memory.
  std::uint32_t destination = 0;   // 0: an arena; n: plan_input::destinations[n - 1].
  std::uint32_t block = no_block;  // Index in plan_input::blocks; only with destination 0.
  // Offset of the box's first element in the block or the destination.
  std::uint64_t destination_offset = 0;
  // In bytes, for each dimension of the box; empty: dense and row-major. Only with a block or a
  // destination, and not below 8 bits an element.
  std::span<const std::int64_t> destination_strides;
};

struct wanted_tensor {
  std::uint32_t file;
  std::uint32_t alignment;  // Required by the element type after loading: 1, 2, 4 or 8.
  std::uint64_t offset;     // From the beginning of the file. Ignored with pieces.
  std::uint64_t bytes;  // Stored bytes of the whole tensor. Whole elements if they are converted.
  conversion cast = {};
  const tensor_form* form = nullptr;
  std::uint32_t arena = 0;  // Below plan_input::arenas. Ignored with another destination.
  bool replicated = false;  // Other tensors have the same stored bytes, which must be read once.
};

// Memory of the caller that exists before the plan is made.
struct caller_memory {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  bool straight = false;  // Reads can land in it because it is host memory.
};

// Memory in an arena that several tensors share.
struct arena_block {
  std::uint64_t bytes = 0;
  std::uint32_t alignment = 1;  // A power of two.
  std::uint32_t arena = 0;
};

// Selects which tensors are mapped instead of read.
enum class mapping_request : std::uint8_t {
  none,
  possible,  // Every tensor that can be mapped; the others are loaded.
  all,       // All tensors; the plan fails if one cannot be mapped.
};

struct plan_input {
  std::span<const wanted_tensor> tensors;  // In any order; their stored bytes may overlap.
  std::span<const wanted_stream> streams = {};
  std::span<const caller_memory> destinations = {};
  std::span<const arena_block> blocks = {};
  std::uint32_t arenas = 1;
  mapping_request views = mapping_request::none;
  bool views_present = false;  // Reads make the pages of mapped tensors present.

  // Convert between an arena's index and its destination number.
  std::uint32_t destination_of(std::uint32_t arena) const noexcept {
    return arena == 0 ? 0 : static_cast<std::uint32_t>(destinations.size()) + arena;
  }
  std::uint32_t arena_of(std::uint32_t destination) const noexcept {
    return destination == 0 ? 0 : destination - static_cast<std::uint32_t>(destinations.size());
  }
  bool is_callers(std::uint32_t destination) const noexcept {
    return destination > 0 && destination <= destinations.size();
  }
};

}  // namespace ringload::inline v0
