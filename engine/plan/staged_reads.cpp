// SPDX-License-Identifier: Apache-2.0

#include "plan/staged_reads.hpp"

#include <algorithm>

#include "base/checked.hpp"
#include "plan/placement_rules.hpp"

namespace ringload::inline v0 {

namespace {

// The stored bytes of an item may be split between two reads at multiples of `bytes` from the first
// byte of the item. If `unaligned` is set, elements may begin at any byte, and a split may be at
// any byte. The next read then begins `bytes` - 1 bytes before the split, so that the next read
// contains every element that the split divides.
struct cut_unit {
  std::uint32_t bytes = 1;
  bool unaligned = false;
};

cut_unit unit_of(const stored_item& item, const plan& new_plan) {
  if (item.map == no_index) return {item.cast.needed() ? item.cast.from_bytes() : 1, false};
  const strided_map& map = new_plan.maps[item.map];
  bool unaligned = false;
  for (std::uint32_t d = 0; d < map.rank; ++d) {
    unaligned = unaligned || map.dimensions[d].source_stride % map.element_bytes != 0;
  }
  return {map.element_bytes, unaligned};
}

class staged_reader {
 public:
  staged_reader(std::uint32_t file, std::span<const segment> segments,
                std::span<const stored_item> items, std::uint64_t slot_bytes, plan& new_plan)
      : file_(file), segments_(segments), items_(items), slot_bytes_(slot_bytes), plan_(new_plan) {}

  void run();

 private:
  // A segment that does not fit in the current read, and the offset at which the next read
  // continues.
  struct remainder {
    std::uint32_t segment;
    std::uint64_t next;
  };

  void take(remainder remaining);
  void take_stream(const segment& current, remainder remaining);
  void take_item(const segment& current, remainder remaining);
  void add_copy(const segment& current, std::uint64_t from, std::uint32_t bytes);
  bool can_extend_last_copy(const stored_item& item, const copy_op& copy) const;
  void extend_read_to(std::uint64_t end);

  read_op& current_read() { return plan_.reads.back(); }
  std::uint32_t read_index() const { return static_cast<std::uint32_t>(plan_.reads.size() - 1); }
  std::uint64_t limit() const { return plan_.reads.back().file_offset + slot_bytes_; }

  const std::uint32_t file_;
  std::span<const segment> segments_;
  std::span<const stored_item> items_;
  const std::uint64_t slot_bytes_;
  plan& plan_;
  std::vector<remainder> unfinished_;   // Segments to continue in the next read.
  std::uint64_t reached_ = 0;           // End of the wanted bytes in the current read.
  std::uint32_t last_item_ = no_index;  // The item of the last copy in the current read.
};

void staged_reader::run() {
  const auto count = static_cast<std::uint32_t>(segments_.size());
  std::vector<remainder> continued;
  for (std::uint32_t next = 0; next < count || !unfinished_.empty();) {
    std::uint64_t first = next < count ? segments_[next].begin : ~std::uint64_t{0};
    for (const remainder& remaining : unfinished_) first = std::min(first, remaining.next);
    plan_.reads.push_back(empty_read(file_, round_down(first, std::uint64_t{block_bytes}), plan_));
    reached_ = first;
    last_item_ = no_index;

    continued.clear();
    continued.swap(unfinished_);
    for (const remainder& remaining : continued) take(remaining);
    for (; next < count; ++next) {
      const std::uint64_t begin = segments_[next].begin;
      const bool is_near = begin <= reached_ || begin - reached_ < gap_bytes_max;
      if (!is_near || begin >= limit()) break;
      take({next, begin});
    }
  }
}

void staged_reader::take(remainder remaining) {
  const segment& current = segments_[remaining.segment];
  if (current.is_stream) return take_stream(current, remaining);
  take_item(current, remaining);
}

void staged_reader::take_stream(const segment& current, remainder remaining) {
  if (current.end > limit() || current.begin < current_read().file_offset) {
    unfinished_.push_back(remaining);
    return;
  }
  const auto slot_offset = static_cast<std::uint32_t>(current.begin - current_read().file_offset);
  plan_.feeds.push_back(
      {current.index, slot_offset, static_cast<std::uint32_t>(current.end - current.begin), 0});
  current_read().feeds_end += 1;
  plan_.streams[current.index].reads_begin = read_index();
  plan_.streams[current.index].reads_end = read_index() + 1;
  extend_read_to(current.end);
}

// Adds bytes of the item to the current read, from `remaining.next` on, until the read is full or
// the item ends. If an element would end after the slot, the next read fetches this element. The
// next read begins at the 4 KiB block that contains the start of this element, so both reads
// contain this block.
void staged_reader::take_item(const segment& current, remainder remaining) {
  const stored_item& item = items_[current.index];
  const cut_unit unit = unit_of(item, plan_);
  std::uint64_t end = std::min(current.end, limit());
  if (end < current.end && !unit.unaligned) end -= (end - item.begin) % unit.bytes;
  if (end < remaining.next + unit.bytes) {
    unfinished_.push_back(remaining);
    return;
  }
  add_copy(current, remaining.next, static_cast<std::uint32_t>(end - remaining.next));
  extend_read_to(end);
  if (end < current.end)
    unfinished_.push_back({remaining.segment, unit.unaligned ? end - (unit.bytes - 1) : end});
}

// Returns true if a copy can extend the last copy. The extended copy also writes the bytes between
// the two copies. If `has_own_place` and `is_only_item` are set, an item is a whole tensor in an
// arena. The arena has these tensors in file order. If two consecutive tensors have the same
// distance in the arena and in the file, only padding of the arena is between them. In other
// memory, a copy must not write unwanted bytes.
bool staged_reader::can_extend_last_copy(const stored_item& item, const copy_op& copy) const {
  const read_op& read = plan_.reads.back();
  if (read.copies_end == read.copies_begin || copy.map != no_index || copy.cast.needed())
    return false;
  const copy_op& last = plan_.copies.back();
  if (last.map != no_index || last.cast.needed() || last.destination != copy.destination) {
    return false;
  }
  if (item.has_own_place && items_[last_item_].has_own_place && item.is_only_item &&
      items_[last_item_].is_only_item) {
    return copy.destination_offset - last.destination_offset == copy.slot_offset - last.slot_offset;
  }
  return last.slot_offset + last.bytes == copy.slot_offset &&
         last.destination_offset + last.bytes == copy.destination_offset;
}

void staged_reader::add_copy(const segment& current, std::uint64_t from, std::uint32_t bytes) {
  const stored_item& item = items_[current.index];
  const std::uint64_t item_offset = from - item.begin;
  copy_op copy = {
      .destination_offset = item.destination_offset,
      .slot_offset = static_cast<std::uint32_t>(from - current_read().file_offset),
      .bytes = bytes,
      .destination = item.destination,
      .map = item.map,
      .source_offset = 0,
      .cast = item.cast,
  };
  if (item.map != no_index) {
    copy.source_offset = item_offset;
  } else if (item.cast.needed()) {
    copy.destination_offset += item_offset / item.cast.from_bytes() * item.cast.to_bytes();
  } else {
    copy.destination_offset += item_offset;
  }
  // If a read has several rows of a slice, one copy with the map of the slice copies all these
  // rows.
  const bool is_next_row = item.map != no_index && last_item_ == current.index;
  if (is_next_row || can_extend_last_copy(item, copy)) {
    copy_op& longer = plan_.copies.back();
    longer.bytes = copy.slot_offset + copy.bytes - longer.slot_offset;
  } else {
    plan_.copies.push_back(copy);
    current_read().copies_end += 1;
  }
  last_item_ = current.index;
  part& item_part = plan_.parts[current.index];
  if (item_part.reads_end == 0) item_part.reads_begin = read_index();
  item_part.reads_end = read_index() + 1;
}

void staged_reader::extend_read_to(std::uint64_t end) {
  reached_ = std::max(reached_, end);
  const auto needed = static_cast<std::uint32_t>(end - current_read().file_offset);
  current_read().bytes_needed = std::max(current_read().bytes_needed, needed);
  current_read().bytes = round_up(current_read().bytes_needed, block_bytes);
}

}  // namespace

void add_staged_reads(std::uint32_t file, std::span<const segment> segments,
                      std::span<const stored_item> items, std::uint64_t slot_bytes,
                      plan& new_plan) {
  staged_reader(file, segments, items, slot_bytes, new_plan).run();
}

result<void> add_chain_reads(std::uint32_t stream, const wanted_stream& stored,
                             std::uint64_t slot_bytes, std::uint64_t reads_max,
                             std::uint64_t& chain_reads, plan& new_plan) {
  const std::uint64_t first_bytes = slot_bytes - stored.offset % block_bytes;
  const std::uint64_t full_reads =
      (stored.bytes - std::min(stored.bytes, first_bytes)) / slot_bytes;
  if (full_reads > reads_max - std::min(chain_reads, reads_max)) {
    return fault{errc::memory_exceeded, "",
                 "its stored stream has " + grouped(stored.bytes) + " bytes and needs more than " +
                     grouped(full_reads) + " reads, the limit for all streams of this load is " +
                     grouped(reads_max)};
  }
  chain_reads += full_reads;
  new_plan.streams[stream].reads_begin = static_cast<std::uint32_t>(new_plan.reads.size());
  const std::uint64_t end = stored.offset + stored.bytes;
  for (std::uint64_t offset = stored.offset; offset < end;) {
    read_op read =
        empty_read(stored.file, round_down(offset, std::uint64_t{block_bytes}), new_plan);
    const std::uint64_t reached = std::min(end, read.file_offset + slot_bytes);
    read.bytes_needed = static_cast<std::uint32_t>(reached - read.file_offset);
    read.bytes = round_up(read.bytes_needed, block_bytes);
    read.feeds_end += 1;
    new_plan.feeds.push_back({stream, static_cast<std::uint32_t>(offset - read.file_offset),
                              static_cast<std::uint32_t>(reached - offset),
                              offset - stored.offset});
    new_plan.reads.push_back(read);
    offset = reached;
  }
  new_plan.streams[stream].reads_end = static_cast<std::uint32_t>(new_plan.reads.size());
  return {};
}

}  // namespace ringload::inline v0
