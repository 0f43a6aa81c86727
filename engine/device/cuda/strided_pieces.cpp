// SPDX-License-Identifier: Apache-2.0

#include "device/cuda/strided_pieces.hpp"

#include <algorithm>
#include <cstdint>

#include "base/numeric/box_split.hpp"

namespace ringload::inline v0::cuda {

namespace {

// The widest word that the kernel copies in one step.
constexpr std::uint32_t word_bytes_max = 8;

void add_dimension(box_piece& to, std::uint64_t count, std::uint64_t from, std::int64_t stride) {
  to.dimensions[to.rank++] = {static_cast<std::uint32_t>(count), static_cast<std::uint32_t>(from),
                              stride};
}

// Uses wider words for bytes that are contiguous in the source and in the destination. The word
// size must divide the number of contiguous bytes.
void widen(box_piece& piece) {
  const auto run = std::find_if(piece.dimensions, piece.dimensions + piece.rank,
                                [&](const box_piece::dimension& d) {
                                  return d.from == piece.element_bytes &&
                                         d.to == static_cast<std::int64_t>(piece.element_bytes);
                                });
  if (run == piece.dimensions + piece.rank) {
    if (piece.element_bytes <= word_bytes_max) return;
    add_dimension(piece, piece.element_bytes / word_bytes_max, word_bytes_max, word_bytes_max);
    piece.element_bytes = word_bytes_max;
    return;
  }
  const std::uint32_t bytes = run->count * piece.element_bytes;
  std::uint32_t word = word_bytes_max;
  while (bytes % word != 0) word /= 2;
  *run = {bytes / word, word, word};
  piece.element_bytes = static_cast<std::uint8_t>(word);
}

// Completes the piece and adds the piece to `pieces`. Sorts the dimensions so that the last
// dimension has the shortest destination stride: neighbouring threads then write neighbouring
// elements.
void finish(box_piece& piece, std::vector<box_piece>& pieces) {
  if (!piece.cast.needed() && piece.swap == 0) widen(piece);
  std::sort(piece.dimensions, piece.dimensions + piece.rank,
            [](const box_piece::dimension& a, const box_piece::dimension& b) {
              return magnitude(a.to) > magnitude(b.to);
            });
  piece.elements = 1;
  for (unsigned d = 0; d < piece.rank; ++d) piece.elements *= piece.dimensions[d].count;
  pieces.push_back(piece);
}

// Adds the pieces of a box. Splits a box with more than elements_max elements into halves.
void add_box(whole_box box, box_piece piece, std::vector<box_piece>& pieces) {
  std::uint64_t elements = 1;
  unsigned longest = 0;
  for (unsigned d = 0; d < box.rank; ++d) {
    elements = std::min<std::uint64_t>(elements, box_piece::elements_max + 1) * box.axes[d].count;
    if (box.axes[d].count > box.axes[longest].count) longest = d;
  }
  if (elements > box_piece::elements_max) {
    whole_box second = box;
    box_piece rest = piece;
    axis& whole = box.axes[longest];
    const std::size_t half = whole.count / 2;
    second.axes[longest].count -= half;
    rest.from = static_cast<const std::byte*>(piece.from) +
                static_cast<std::ptrdiff_t>(half) * whole.source_stride;
    rest.to = static_cast<std::byte*>(piece.to) +
              static_cast<std::ptrdiff_t>(half) * whole.destination_stride;
    whole.count = half;
    add_box(box, piece, pieces);
    add_box(second, rest, pieces);
    return;
  }
  for (unsigned d = 0; d < box.rank; ++d) {
    if (box.axes[d].count == 1) continue;
    add_dimension(piece, box.axes[d].count, static_cast<std::uint64_t>(box.axes[d].source_stride),
                  box.axes[d].destination_stride);
  }
  finish(piece, pieces);
}

}  // namespace

void add_boxes(const copy_operation& op, std::span<const copy_op> copies,
               std::vector<box_piece>& pieces) {
  for (const copy_op& copy : copies) {
    const std::byte* const from = op.slot + copy.slot_offset;
    std::byte* const to = op.destination(copy);
    box_piece piece = {};
    if (copy.map == no_index) {
      piece = {from, to, 0, 0, 0, 0, copy.cast, {}};
      const std::uint32_t count = copy.bytes / copy.cast.from_bytes();
      if (count > 1) add_dimension(piece, count, copy.cast.from_bytes(), copy.cast.to_bytes());
      finish(piece, pieces);
      continue;
    }
    const strided_map& map = op.maps[copy.map];
    piece.element_bytes = static_cast<std::uint8_t>(map.cast.needed() ? 0 : map.element_bytes);
    piece.swap = map.swap_bytes != 0 ? 1 : 0;
    piece.cast = map.cast;
    for_each_whole_box(
        map, copy.source_offset, copy.bytes,
        [&](const whole_box& box, std::uint64_t from_offset, std::ptrdiff_t to_offset) {
          piece.from = from + from_offset;
          piece.to = to + to_offset;
          add_box(box, piece, pieces);
        });
  }
}

}  // namespace ringload::inline v0::cuda
