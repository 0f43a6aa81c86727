// SPDX-License-Identifier: Apache-2.0
#pragma once

// A plan lists all reads of a load, and the destination of each byte, before any byte is read.
// make_plan() creates the plan, and the load executes the plan.
//
//  file      |..aaaaaaaaaaa|bb.cccccc....|     wanted bytes
//  reads     |------0------|------1------|     aligned, at most one slot long
//  copies       0: a          1: b  2: c       of a staged read; an unstaged read seldom has copies
//
// An unstaged read writes to its destination directly. The destination is an arena or caller
// memory. In an arena, the tensor has the same offset within a 4 KiB block as in the file. If the
// elements would be misaligned at that offset, the tensor is shifted (see shift_of() in
// make_plan.cpp). In a block of an arena, and in caller memory, the destination must be aligned to
// plan_limits::direct_alignment. All other bytes are staged: the load reads the bytes into a slot
// (an I/O buffer), and copies the bytes from the slot. A tensor is also staged if the tensor is
// converted, or if its elements are not contiguous, because the copies convert and reorder
// elements. Bytes for several arenas are staged, or are read into one arena and copied from this
// arena to the other arenas.
//
// An arena is an allocation for tensors. Caller memory is memory that exists before the load. A
// block of an arena is memory that several tensors share. Tensors that load the same stored bytes
// into several arenas are replicas. A map (strided_map.hpp) describes a copy that reorders
// elements.
//
// Destinations have numbers. 0 is the first arena, and n is plan_input::destinations[n - 1]. The
// larger numbers are the other arenas.
//
// A mapped tensor needs no read. The tensor is in a mapping of its file, and the mapping is an
// arena too. A plan may still have reads of mapped tensors. The only purpose of these reads is to
// make the pages present.
//
// Workers take (start) the reads. A compressed stream is decoded from its first byte to its last,
// so its reads are taken in file order. If a read completes early, the read keeps its slot until
// the previous read is decoded. A stream that fits in one read may share that read with other
// bytes. A longer stream is a chain: its reads contain no other bytes. A read of a chain waits only
// for earlier reads of the same chain, which were taken before. Therefore every taken read is
// eventually decoded, with any number of slots and any order of chains.

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
  std::uint64_t destination_offset;  // The target of an unstaged read, or `staged`.
  std::uint32_t destination;         // Used only for an unstaged read.
  std::uint32_t file;
  std::uint32_t bytes;  // Number of requested bytes: a multiple of block_bytes, at most one slot.
  // Number of bytes up to the last wanted byte. The file may end after the last wanted byte.
  std::uint32_t bytes_needed;
  // The copies of this read are plan::copies[copies_begin, copies_end).
  std::uint32_t copies_begin;
  std::uint32_t copies_end;
  std::uint32_t feeds_begin;  // The feeds of this read are plan::feeds[feeds_begin, feeds_end).
  std::uint32_t feeds_end;
  // All parts that need this read are in plan::parts[parts_begin, parts_end). This range may also
  // have other parts: see part::is_fed_by().
  std::uint32_t parts_begin;
  std::uint32_t parts_end;

  bool is_unstaged() const noexcept { return destination_offset != staged; }
};
static_assert(sizeof(read_op) == 56);

// Copies a range of a slot, or a range of the bytes of an unstaged read, to a destination. The
// bytes are copied unchanged, converted element by element, or reordered by a map.
struct copy_op {
  std::uint64_t destination_offset;  // With a map, the target of element (0, 0, ...) of the map.
  std::uint32_t slot_offset;
  // Number of bytes in the slot. If the bytes are converted, a multiple of the element size.
  std::uint32_t bytes;
  std::uint32_t destination = 0;
  std::uint32_t map = no_index;  // Index in plan::maps.
  // With a map, the offset of this range in the stored bytes of the map.
  std::uint64_t source_offset = 0;
  conversion cast = {};  // Not used with a map, because a map has its own conversion.
};
static_assert(sizeof(copy_op) == 40);

// A range of a slot that is passed to the decoder of a stored stream.
struct feed_op {
  std::uint32_t stream;  // Index in plan::streams.
  std::uint32_t slot_offset;
  std::uint32_t bytes;
  // Offset in the stored stream. The range is decoded after all earlier bytes of the stream.
  std::uint64_t stream_offset;
};

// A range of a decoded stream, and its destination.
struct stream_output {
  // Offset of the range in the decoded stream. With a map, the offset of the first byte of the map.
  std::uint64_t stream_offset;
  std::uint64_t bytes;  // Number of decoded bytes.
  std::uint64_t destination_offset;
  std::uint32_t destination;
  std::uint32_t tensor;
  std::uint32_t map;     // Index in plan::maps. no_index if the output is one run of bytes.
  conversion cast;       // Not used with a map.
  std::uint32_t stream;  // Index in plan::streams.
};

struct stream_op {
  std::uint32_t stream;  // Index in plan_input::streams.
  // The reads of the stream are plan::reads[reads_begin, reads_end), in this order.
  std::uint32_t reads_begin;
  std::uint32_t reads_end;
  // The outputs of the stream are plan::outputs[outputs_begin, outputs_end), sorted by
  // stream_offset.
  std::uint32_t outputs_begin;
  std::uint32_t outputs_end;
  std::uint64_t bytes_needed;  // Number of decoded bytes up to the last wanted byte.

  bool is_chain() const noexcept { return reads_end - reads_begin > 1; }
};

// Writes one value to elements of a tensor. If some elements of a tensor have no stored bytes, its
// fill_ops cover all wanted elements. The load carries out all fill_ops before the first read is
// taken. Therefore the bytes of the reads replace the value of the stored elements.
struct fill_op {
  std::uint64_t destination_offset;
  std::uint32_t destination;
  std::uint32_t tensor;
  // Index in plan::maps. The map repeats the element: its source strides between elements are 0.
  std::uint32_t map;
  // Offset of the element's bytes in plan::fill_values.
  std::uint32_t value;
  std::uint32_t value_bytes;
};

// Stored bytes of one tensor that are all unstaged, all staged, or all decoded from one
// stream. A part is complete when its reads are complete. A part of a stream is complete when the
// stream is decoded.
struct part {
  std::uint32_t tensor;
  std::uint32_t reads_begin;  // plan::reads[reads_begin, reads_end) fetch the part.
  std::uint32_t reads_end;
  std::uint32_t stream = no_index;  // Index in plan::streams.
  bool unstaged = false;

  bool is_fed_by(std::uint32_t read) const noexcept {
    return reads_begin <= read && read < reads_end;
  }
};

// The place of a tensor, and the parts that must be complete before the tensor is complete.
struct placement {
  std::uint64_t destination_offset = 0;
  // Size in the destination. With destination strides, the elements have gaps, which are not
  // counted.
  std::uint64_t bytes = 0;
  std::uint32_t destination = 0;
  // The parts of the tensor are the elements of plan::parts[parts_begin, parts_end) with the index
  // of the tensor. A tensor without stored bytes has no parts.
  std::uint32_t parts_begin = 0;
  std::uint32_t parts_end = 0;
  conversion cast = {};
};

// An allocation for tensors. For mapped tensors, a mapped range of a file.
struct planned_arena {
  // 0 if no tensor is in the arena. An arena of 0 bytes is not allocated.
  std::uint64_t bytes = 0;
  std::uint32_t alignment = 1;    // Alignment of the address: a power of two, at most block_bytes.
  std::uint32_t file = no_index;  // The mapped file, or no_index.
  std::uint64_t file_offset = 0;  // Start of the mapping: a multiple of block_bytes.

  bool is_mapped() const noexcept { return file != no_index; }
};

struct plan {
  // Sorted by file. In each file, unstaged reads are first, then staged reads, then chains.
  std::vector<read_op> reads;
  std::vector<copy_op> copies;
  std::vector<strided_map> maps;
  std::vector<feed_op> feeds;
  std::vector<stream_op> streams;
  std::vector<stream_output> outputs;
  std::vector<fill_op> fills;
  std::vector<std::byte> fill_values;
  std::vector<part> parts;  // In file order.
  // In the order of plan_input::tensors. If there are fused tensors, indexed by the values of
  // plan_input::result_of.
  std::vector<placement> tensors;
  // Indexed like plan_input::blocks: the offset of the block in its arena.
  std::vector<std::uint64_t> blocks;
  // The order in which reads are taken. Chains take turns, and all other reads follow file order.
  // If this list is empty, reads are taken in the order of `reads`.
  std::vector<std::uint32_t> order;
  std::vector<planned_arena> arenas;
  // Sum of all allocations. A single arena without a mapping request has at least one 4 KiB block,
  // so that an empty tensor has an address.
  std::uint64_t arena_bytes = 0;
  std::uint64_t bytes_wanted = 0;  // Number of wanted stored bytes.
  std::uint64_t bytes_read = 0;    // Number of bytes that the reads request.
};

// Returns a staged read of 0 bytes. The caller must add the copies and feeds of this read to
// `new_plan` before the caller adds any other read.
inline read_op empty_read(std::uint32_t file, std::uint64_t file_offset, const plan& new_plan) {
  const auto copies = static_cast<std::uint32_t>(new_plan.copies.size());
  const auto feeds = static_cast<std::uint32_t>(new_plan.feeds.size());
  return {file_offset, read_op::staged, 0, file, 0, 0, copies, copies, feeds, feeds, 0, 0};
}

}  // namespace ringload::inline v0
