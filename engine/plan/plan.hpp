// SPDX-License-Identifier: Apache-2.0
#pragma once

// A plan says, before any byte moves, which reads will be made and where each byte will go.
//
//   file      |..aaaaaaaaaaa|bb.cccccc....|     what is wanted of it
//   reads     |------0------|------1------|     aligned, at most one slot long
//   copies       0: a          1: b  2: c       of a staged read; a straight read seldom has any
//
// A straight read lands at its destination: in the arena, where the distance of a tensor from a
// block's beginning may be the same as in the file, or in memory of the caller's, where its address
// allows it. The rest is staged: read into a slot and copied from there. So is a tensor that is
// converted, or whose elements do not lie side by side: its copies do that. Where the same bytes go
// to several arenas they are staged too, or land in the first and are copied from there.
//
// Destination 0 is the first arena, n the caller's memory n - 1 of what the plan was made of, and
// those behind them are the other arenas.
//
// Views. A tensor whose bytes can be used where they are needs no read: it lies in a mapping of its
// file, which is an arena too. The reads of views, if they are wanted, make its pages present.
//
// Streams. One that is compressed is decoded from its beginning to its end, so its reads are taken
// in the order of the file, and a read that came too early holds its slot until the one before has
// been decoded. A stream that fits in one read may share it. One that does not is a chain: its
// reads hold nothing else. So of the reads that wait, the earliest of each chain waits for nothing
// but a read that has been taken already, and by induction for nothing but the drive and a decoder:
// any number of slots will do, however the chains take turns.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/block.hpp"
#include "core/float_bits.hpp"
#include "core/strided_map.hpp"

namespace ringload::inline v0 {

inline constexpr std::uint32_t no_index = ~std::uint32_t{0};

struct read_op {
  static constexpr std::uint64_t staged = ~std::uint64_t{0};

  std::uint64_t file_offset;         // A multiple of block_bytes.
  std::uint64_t destination_offset;  // Where a straight read lands; or `staged`.
  std::uint32_t destination;         // Of a straight read.
  std::uint32_t file;
  std::uint32_t bytes;  // What we ask for: a multiple of block_bytes, at most one slot.
  std::uint32_t
      bytes_needed;  // What must arrive: up to the last wanted byte. Then the file may end.
  std::uint32_t copies_begin;  // This read is for plan::copies[copies_begin, copies_end).
  std::uint32_t copies_end;
  std::uint32_t feeds_begin;  // And for plan::feeds[feeds_begin, feeds_end).
  std::uint32_t feeds_end;
  std::uint32_t parts_begin;  // Of plan::parts[parts_begin, parts_end) it feeds some: fed_by().
  std::uint32_t parts_end;

  bool straight() const noexcept { return destination_offset != staged; }
};
static_assert(sizeof(read_op) == 56);

// A range of a slot, or of what a straight read has brought, that goes to a destination: as it is,
// or converted, element by element; or, of a map, the elements in it.
struct copy_op {
  std::uint64_t destination_offset;  // Of a map: where its element (0, 0, ...) goes.
  std::uint32_t slot_offset;
  std::uint32_t bytes;  // In the slot. If they are converted, whole elements.
  std::uint32_t destination = 0;
  std::uint32_t map = no_index;     // Of plan::maps.
  std::uint64_t source_offset = 0;  // Of a map: in its stored bytes, of the first of these.
  conversion as = {};               // Not of a map, which has its own.
};
static_assert(sizeof(copy_op) == 40);

// A range of a slot that is the next piece of a stored stream.
struct feed_op {
  std::uint32_t stream;  // Of plan::streams.
  std::uint32_t slot_offset;
  std::uint32_t bytes;
  std::uint64_t stream_offset;  // In the stored stream: it is the next when all before is decoded.
};

// What becomes of decoded bytes.
struct stream_output {
  std::uint64_t stream_offset;  // In the decoded stream: of the first byte, or of the map's.
  std::uint64_t bytes;          // Of the decoded stream.
  std::uint64_t destination_offset;
  std::uint32_t destination;
  std::uint32_t tensor;
  std::uint32_t map;     // Of plan::maps; or no_index: one run of bytes.
  conversion as;         // Of a run.
  std::uint32_t stream;  // Of plan::streams.
};

struct stream_op {
  std::uint32_t stream;         // Of plan_input::streams: it says the codec, and what is in memory.
  std::uint32_t reads_begin;    // Its bytes come with plan::reads[reads_begin, reads_end), in this
  std::uint32_t reads_end;      // order. None where it is in memory.
  std::uint32_t outputs_begin;  // By stream_offset.
  std::uint32_t outputs_end;
  std::uint64_t bytes_needed;  // Of the decoded stream: up to the last wanted byte.

  bool chain() const noexcept { return reads_end - reads_begin > 1; }
};

// Elements that lie in no piece of what is stored. Carried out before the first read is taken.
struct fill_op {
  std::uint64_t destination_offset;
  std::uint32_t destination;
  std::uint32_t tensor;
  std::uint32_t map;          // Of plan::maps: every source stride is 0, but inside of the element.
  std::uint32_t value;        // The element stands from here on in plan::fill_values,
  std::uint32_t value_bytes;  // so long.
};

// Stored bytes of one tensor that come the same way. It is there when its reads have been, or, of a
// stream, when that has been decoded.
struct part {
  std::uint32_t tensor;
  std::uint32_t reads_begin;  // plan::reads[reads_begin, reads_end) bring it.
  std::uint32_t reads_end;
  std::uint32_t stream = no_index;  // Of plan::streams.
  bool straight = false;

  bool fed_by(std::uint32_t read) const noexcept { return reads_begin <= read && read < reads_end; }
  // What it waits for.
  std::uint32_t needs() const noexcept { return stream == no_index ? reads_end - reads_begin : 1; }
};

// Where a tensor lies, and what must happen before it is whole.
struct placement {
  std::uint64_t destination_offset = 0;
  std::uint64_t bytes = 0;  // Landed. With strides of its own its elements lie further apart.
  std::uint32_t destination = 0;
  // Its parts are those of plan::parts[parts_begin, parts_end) that name it: none for a tensor of 0
  // bytes.
  std::uint32_t parts_begin = 0;
  std::uint32_t parts_end = 0;
  conversion as = {};
};

// An allocation that tensors lie in, or, of views, mapped bytes of a file.
struct planned_arena {
  std::uint64_t bytes = 0;        // 0: nothing lies there, and it is not to be made.
  std::uint32_t alignment = 1;    // Of its address: a power of two, at most block_bytes.
  std::uint32_t file = no_index;  // Of views: whose bytes are mapped,
  std::uint64_t file_offset = 0;  // from here on, a multiple of block_bytes.

  bool mapped() const noexcept { return file != no_index; }
};

struct plan {
  std::vector<read_op> reads;  // In file order; of each file the straight ones, the staged, chains.
  std::vector<copy_op> copies;
  std::vector<strided_map> maps;
  std::vector<feed_op> feeds;
  std::vector<stream_op> streams;
  std::vector<stream_output> outputs;
  std::vector<fill_op> fills;
  std::vector<std::byte> fill_values;
  std::vector<part> parts;            // By their place in the files.
  std::vector<placement> tensors;     // In the order in which they were given.
  std::vector<std::uint64_t> blocks;  // By arena_block: its offset in the arena.
  // The order in which reads are taken, where it is another than that of `reads`: those of chains
  // take turns, and all others go by their place in the files. Empty: as they stand.
  std::vector<std::uint32_t> order;
  std::vector<planned_arena> arenas;
  std::uint64_t arena_bytes = 0;   // Of all that are allocated. Of a single one at least one block,
                                   // so that an empty tensor has an address.
  std::uint64_t bytes_wanted = 0;  // Stored.
  std::uint64_t bytes_read = 0;    // What the reads ask for.
};

}  // namespace ringload::inline v0
