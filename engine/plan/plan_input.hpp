// SPDX-License-Identifier: Apache-2.0
#pragma once

// The input of make_plan(): the stored bytes of each tensor, the wanted elements, and their
// destination.
//
// A wanted_tensor without a `form` is contiguous, and is loaded as a whole into an arena (an
// allocation for tensors). Every other tensor has a tensor_form. The caller must keep all spans and
// pointers valid until make_plan() returns.

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/numeric/convert_float.hpp"
#include "base/range.hpp"

namespace ringload::inline v0 {

// A range of stored bytes that contains boxes of elements.
struct wanted_stream {
  enum class kind : std::uint8_t {
    raw,        // The bytes of the file, unchanged.
    decoded,    // Decoded from the first byte to the last.
    in_memory,  // The bytes are already in memory. The stream has no file and no reads.
  };

  kind storage = kind::raw;
  std::uint32_t file = 0;
  std::uint64_t offset = 0;         // Offset from the beginning of the file.
  std::uint64_t bytes = 0;          // Size in the file.
  std::uint64_t decoded_bytes = 0;  // Equal to `bytes` for a raw stream.
};

// A box of elements of a tensor, and the place of the box in a stream. Each span has one entry for
// each dimension of the shape, outermost dimension first.
struct stored_box {
  std::uint32_t stream = 0;      // Index in plan_input::streams.
  std::uint64_t first_byte = 0;  // Offset of the element at `origin` in the decoded stream.
  std::span<const std::uint64_t> origin;
  std::span<const std::uint64_t> extent;
  // A stride of 0 repeats an element. The strides are ignored if elements have fewer than 8 bits.
  std::span<const std::uint64_t> stride_bytes;
};

struct tensor_form {
  static constexpr std::uint32_t no_block = ~std::uint32_t{0};

  // The stored shape. Used only with pieces, a box, strides or a byte swap. If `element_bits` is
  // the size of a quantised block, the last dimension counts blocks instead of elements.
  std::span<const std::uint64_t> shape;
  // Number of bits of an element or of a quantised block. If an element has 4 or 6 bits, each
  // contiguous run of wanted elements must begin and end on a whole byte.
  std::uint32_t element_bits = 8;
  // Size of the units whose bytes are swapped: 2, 4 or 8. 0 for no swap.
  std::uint8_t swap_bytes = 0;
  // If true, the elements are in `pieces`. If false, the elements are in row-major order from
  // wanted_tensor::offset on.
  bool has_pieces = false;
  // Boxes that have no element in common. Elements with fewer than 8 bits must be in a single box.
  std::span<const stored_box> pieces;
  // The bytes of one element. All elements outside of the pieces have this value. Empty for zeros.
  std::span<const std::byte> fill;

  // One range for each dimension of the shape. Empty for the whole tensor.
  std::span<const range> box;

  // A tensor has one of three destinations: its own place in its arena, a `block`, or caller
  // memory. A block is arena memory that several tensors share.
  std::uint32_t destination = 0;   // 0 for an arena. n for plan_input::destinations[n - 1].
  std::uint32_t block = no_block;  // Index in plan_input::blocks. Used only with destination 0.
  // Offset of the box's first element in the block or in the destination.
  std::uint64_t destination_offset = 0;
  // Strides in bytes, one for each dimension of the box. Empty if the destination is contiguous and
  // row-major. Strides need a block or caller memory, and elements of at least 8 bits.
  std::span<const std::int64_t> destination_strides;
};

struct wanted_tensor {
  std::uint32_t file;
  // The alignment of the element type in memory: 1, 2, 4, 8 or 16.
  std::uint32_t alignment;
  // Offset from the beginning of the file. Ignored if the elements are in pieces.
  std::uint64_t offset;
  std::uint64_t bytes;
  conversion cast = {};
  const tensor_form* form = nullptr;
  std::uint32_t arena = 0;  // Index of the arena. Ignored if `form` has another destination.
  // True if other tensors may load the same stored bytes into other arenas. The plan then reads
  // these bytes only once.
  bool replicated = false;
};

// Memory of the caller that exists before the plan is made.
struct caller_memory {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  bool unstaged = false;  // True for host memory, to which reads may write directly.
};

// Arena memory that several tensors share.
struct arena_block {
  std::uint64_t bytes = 0;
  std::uint32_t alignment = 1;  // A power of two.
  std::uint32_t arena = 0;
};

// Selects which tensors are mapped instead of read.
enum class mapping_request : std::uint8_t {
  none,
  possible,  // Maps every tensor that can be mapped. The other tensors are loaded.
  all,       // Maps all tensors. The plan fails if a tensor cannot be mapped.
};

struct plan_input {
  std::span<const wanted_tensor> tensors;  // In any order. The stored bytes of tensors may overlap.
  std::span<const wanted_stream> streams = {};
  std::span<const caller_memory> destinations = {};
  std::span<const arena_block> blocks = {};
  std::uint32_t arenas = 1;
  mapping_request mapping = mapping_request::none;
  bool populates_mappings = false;  // True if reads must make the pages of mapped tensors present.
  // Indexed by tensor: the index of the tensor in plan::tensors. Consecutive tensors with the same
  // index are parts of a fused tensor. The indices begin at 0 and increase by at most 1. If the
  // span is empty, each tensor keeps its index.
  std::span<const std::uint32_t> result_of = {};

  // Converts the index of an arena to its destination number (see plan.hpp). arena_of() converts
  // back.
  std::uint32_t destination_of(std::uint32_t arena) const noexcept {
    return arena == 0 ? 0 : static_cast<std::uint32_t>(destinations.size()) + arena;
  }
  std::uint32_t arena_of(std::uint32_t destination) const noexcept {
    return destination == 0 ? 0 : destination - static_cast<std::uint32_t>(destinations.size());
  }
  bool is_caller_memory(std::uint32_t destination) const noexcept {
    return destination > 0 && destination <= destinations.size();
  }
};

}  // namespace ringload::inline v0
