// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a plan is made of: where the bytes of each tensor are stored, which of its elements are
// wanted, and where they go.
//
// A tensor whose bytes lie in one piece, that is wanted whole and goes to the load's arena, is a
// wanted_tensor alone. What differs from that stands in its tensor_form. All spans and pointers are
// the caller's, and are looked at by make_plan only.

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/float_bits.hpp"
#include "core/range.hpp"

namespace ringload::inline v0 {

// A run of stored bytes that boxes of elements lie in.
struct wanted_stream {
  enum class kind : std::uint8_t {
    raw,        // The bytes of the file as they are.
    decoded,    // Decoded from the first byte to the last.
    in_memory,  // Decoded without a read; no file.
  };

  kind how = kind::raw;
  std::uint32_t file = 0;
  std::uint64_t offset = 0;         // From the beginning of the file.
  std::uint64_t bytes = 0;          // Stored in the file.
  std::uint64_t decoded_bytes = 0;  // Of raw ones `bytes`.
};

// A box of a tensor's elements in a stream. By dimension, outermost first, as many as the shape
// has.
struct stored_box {
  std::uint32_t stream = 0;      // Of plan_input::streams.
  std::uint64_t first_byte = 0;  // In the decoded stream: of the element at `origin`.
  std::span<const std::uint64_t> origin;
  std::span<const std::uint64_t> extent;
  std::span<const std::uint64_t> stride_bytes;  // 0 repeats. Not looked at below 8 bits an element.
};

struct tensor_form {
  static constexpr std::uint32_t no_block = ~std::uint32_t{0};

  // As stored. Looked at where there are pieces, a box, strides or a swap. What is converted from
  // blocks of elements counts them: of 144 bytes each, one dimension of the shape counts blocks.
  std::span<const std::uint64_t> shape;
  // Of one element, or block. Of 4 or 6, a box begins and ends on whole bytes in each of its rows.
  std::uint32_t element_bits = 8;
  std::uint8_t swap_bytes = 0;  // Units whose bytes are reversed: 2, 4 or 8; 0: none.
  // The boxes that the elements lie in; false: row-major, from wanted_tensor::offset on.
  bool in_pieces = false;
  std::span<const stored_box> pieces;  // Distinct elements. Below 8 bits an element: one, of all.
  std::span<const std::byte> fill;     // One, as stored, for all in no piece; empty: zeros.

  // A range for each dimension of the shape; empty: the tensor is wanted whole.
  std::span<const range> box;

  // Where it goes. To its arena, which gives it a place of its own; or to `block`, memory of an
  // arena that several tensors share; or to memory of the caller's.
  std::uint32_t destination = 0;         // 0: an arena; n: plan_input::destinations[n - 1].
  std::uint32_t block = no_block;        // Of plan_input::blocks; with destination 0 only.
  std::uint64_t destination_offset = 0;  // In block or destination: of the box's first element.
  // In bytes, for each dimension of the box; empty: dense and row-major. In block or destination
  // only, and not below 8 bits an element.
  std::span<const std::int64_t> destination_strides;
};

struct wanted_tensor {
  std::uint32_t file;
  std::uint32_t alignment;  // What its element type needs once it has landed: 1, 2, 4 or 8.
  std::uint64_t offset;     // From the beginning of the file. Not looked at where it is in pieces.
  std::uint64_t bytes;  // As stored, of the whole tensor. If they are converted, whole elements.
  conversion as = {};
  const tensor_form* form = nullptr;
  std::uint32_t arena = 0;  // Of those of the plan_input. Not looked at where it goes elsewhere.
  bool replicated = false;  // Others have the same stored bytes, which are to be read once.
};

// Memory of the caller's, which is there before the plan is made.
struct caller_memory {
  std::uint64_t address = 0;  // Where it begins.
  std::uint64_t bytes = 0;
  bool straight = false;  // Reads can land in it: memory of the host.
};

// Memory in an arena that several tensors are put into.
struct arena_block {
  std::uint64_t bytes = 0;
  std::uint32_t alignment = 1;  // A power of two.
  std::uint32_t arena = 0;
};

// Whether tensors are views of their files, where they can be.
enum class view_wish : std::uint8_t {
  none,
  possible,  // Those that can be; the others are brought.
  all,       // All must be: else the plan fails.
};

struct plan_input {
  std::span<const wanted_tensor> tensors;  // In any order; their stored bytes may overlap.
  std::span<const wanted_stream> streams = {};
  std::span<const caller_memory> destinations = {};
  std::span<const arena_block> blocks = {};
  std::uint32_t arenas = 1;
  view_wish views = view_wish::none;
  bool views_present = false;  // Their pages are made present, by reads.

  // The plan's number for an arena, and back.
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
