// SPDX-License-Identifier: Apache-2.0
#pragma once

// A plan states all reads, and the destination of each byte, before any byte is read.
//
//   file      |..aaaaaaaaaaa|bb.cccccc....|     wanted bytes
//   reads     |------0------|------1------|     aligned, at most one slot long
//   copies       0: a          1: b  2: c       of a staged read; a straight read seldom has any
//
// A straight read lands at its destination. That is the arena, if the tensor may have the same
// offset from the start of a block as in the file, or caller memory, if the address allows it. All
// other bytes are staged: read into a slot and copied from there. A tensor is also staged if it is
// converted or its elements are not contiguous, because the copies do that work. Bytes for several
// arenas are staged too, or are read into the first arena and copied from there.
//
// Destination 0 is the first arena. Destination n is caller memory n - 1 of the plan_input. The
// numbers after the caller memories are the other arenas.
//
// A mapped tensor needs no read: it lies in a mapping of its file, and that mapping is an arena
// too. Optional reads of mapped tensors only make their pages present.
//
// A compressed stream is decoded from its first byte to its last, so its reads are taken in file
// order. A read that completes early holds its slot until the previous read has been decoded. A
// stream that fits in one read may share that read. A longer stream is a chain: its reads contain
// nothing else. So the earliest waiting read of each chain waits only for a read that has been
// taken already, and by induction only for the drive and a decoder. Any number of slots is
// therefore enough, in whatever order the chains take turns.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/io_unit.hpp"
#include "base/numeric/convert_float.hpp"
#include "base/numeric/strided_map.hpp"

namespace ringload::inline v0 {

inline constexpr std::uint32_t no_index = ~std::uint32_t{0};

struct read_op {
  static constexpr std::uint64_t staged = ~std::uint64_t{0};

  std::uint64_t file_offset;         // A multiple of block_bytes.
  std::uint64_t destination_offset;  // The target of a straight read, or `staged`.
  std::uint32_t destination;         // Only for a straight read.
  std::uint32_t file;
  std::uint32_t bytes;         // Requested: a multiple of block_bytes, at most one slot.
  std::uint32_t bytes_needed;  // Needed: up to the last wanted byte. The file may end there.
  std::uint32_t copies_begin;  // This read serves plan::copies[copies_begin, copies_end).
  std::uint32_t copies_end;
  std::uint32_t feeds_begin;  // It also serves plan::feeds[feeds_begin, feeds_end).
  std::uint32_t feeds_end;
  // It serves some parts of plan::parts[parts_begin, parts_end); see fed_by().
  std::uint32_t parts_begin;
  std::uint32_t parts_end;

  bool straight() const noexcept { return destination_offset != staged; }
};
static_assert(sizeof(read_op) == 56);

// A range of a slot, or of the bytes of a straight read, that is copied to a destination. The bytes
// are copied unchanged, converted element by element, or scattered by a map.
struct copy_op {
  std::uint64_t destination_offset;  // With a map: the target of its element (0, 0, ...).
  std::uint32_t slot_offset;
  std::uint32_t bytes;  // Bytes in the slot. Whole elements if they are converted.
  std::uint32_t destination = 0;
  std::uint32_t map = no_index;     // Index in plan::maps.
  std::uint64_t source_offset = 0;  // With a map: offset of this range in the map's stored bytes.
  conversion cast = {};             // Unused with a map, which has its own conversion.
};
static_assert(sizeof(copy_op) == 40);

// A range of a slot that is the next piece of a stored stream.
struct feed_op {
  std::uint32_t stream;  // Index in plan::streams.
  std::uint32_t slot_offset;
  std::uint32_t bytes;
  // In the stored stream. The piece is decoded when all bytes before it are decoded.
  std::uint64_t stream_offset;
};

// A range of a decoded stream and its destination.
struct stream_output {
  std::uint64_t stream_offset;  // First byte, or first byte of the map, in the decoded stream.
  std::uint64_t bytes;          // Decoded bytes.
  std::uint64_t destination_offset;
  std::uint32_t destination;
  std::uint32_t tensor;
  std::uint32_t map;     // Index in plan::maps; no_index: one run of bytes.
  conversion cast;       // Unused with a map.
  std::uint32_t stream;  // Index in plan::streams.
};

struct stream_op {
  std::uint32_t stream;  // Index in plan_input::streams, which holds the codec and in-memory bytes.
  // Its bytes come from plan::reads[reads_begin, reads_end), in this order.
  std::uint32_t reads_begin;
  std::uint32_t reads_end;
  // Outputs are sorted by stream_offset.
  std::uint32_t outputs_begin;
  std::uint32_t outputs_end;
  std::uint64_t bytes_needed;  // Decoded bytes up to the last wanted one.

  bool chain() const noexcept { return reads_end - reads_begin > 1; }
};

// Elements that no stored piece covers. They are written before the first read is taken.
struct fill_op {
  std::uint64_t destination_offset;
  std::uint32_t destination;
  std::uint32_t tensor;
  std::uint32_t map;  // Index in plan::maps. Every source stride is 0, except inside the element.
  // The element's bytes begin here in plan::fill_values.
  std::uint32_t value;
  std::uint32_t value_bytes;
};

// Stored bytes of one tensor that take the same route. A part is complete when its reads are
// complete or, for a stream, when the stream is decoded.
struct part {
  std::uint32_t tensor;
  std::uint32_t reads_begin;  // plan::reads[reads_begin, reads_end) fetch it.
  std::uint32_t reads_end;
  std::uint32_t stream = no_index;  // Index in plan::streams.
  bool straight = false;

  bool fed_by(std::uint32_t read) const noexcept { return reads_begin <= read && read < reads_end; }
  // Number of completions that the part waits for.
  std::uint32_t needs() const noexcept { return stream == no_index ? reads_end - reads_begin : 1; }
};

// The place of a tensor, and the parts that must be complete before the tensor is.
struct placement {
  std::uint64_t destination_offset = 0;
  // In the destination. With destination strides the elements lie further apart.
  std::uint64_t bytes = 0;
  std::uint32_t destination = 0;
  // The tensor's parts are the entries of plan::parts[parts_begin, parts_end) that name it. A
  // tensor of 0 bytes has no parts.
  std::uint32_t parts_begin = 0;
  std::uint32_t parts_end = 0;
  conversion cast = {};
};

// An allocation for tensors or, for mapped tensors, a mapped range of a file.
struct planned_arena {
  std::uint64_t bytes = 0;        // 0: no tensor lies in it, and it is not allocated.
  std::uint32_t alignment = 1;    // Alignment of its address: a power of two, at most block_bytes.
  std::uint32_t file = no_index;  // The mapped file, or no_index.
  std::uint64_t file_offset = 0;  // Start of the mapping, a multiple of block_bytes.

  bool mapped() const noexcept { return file != no_index; }
};

struct plan {
  std::vector<read_op> reads;  // By file; within a file straight reads, staged reads, chains.
  std::vector<copy_op> copies;
  std::vector<strided_map> maps;
  std::vector<feed_op> feeds;
  std::vector<stream_op> streams;
  std::vector<stream_output> outputs;
  std::vector<fill_op> fills;
  std::vector<std::byte> fill_values;
  std::vector<part> parts;            // In file order.
  std::vector<placement> tensors;     // In the order of plan_input::tensors.
  std::vector<std::uint64_t> blocks;  // By arena_block: its offset in the arena.
  // The order in which reads are taken. Chains take turns, and all other reads follow file order.
  // Empty: the order of `reads`.
  std::vector<std::uint32_t> order;
  std::vector<planned_arena> arenas;
  // Sum of all allocations. A single arena has at least one block, so that an empty tensor has an
  // address.
  std::uint64_t arena_bytes = 0;
  std::uint64_t bytes_wanted = 0;  // Stored bytes.
  std::uint64_t bytes_read = 0;    // Bytes that the reads request.
};

}  // namespace ringload::inline v0
