// SPDX-License-Identifier: Apache-2.0
#include "plan/staged_reads.hpp"

#include <algorithm>

#include "base/checked.hpp"
#include "plan/make_plan.hpp"

namespace ringload::inline v0 {

namespace {

// Stored bytes may be cut at multiples of `bytes` from their start. If elements may begin at any
// byte, `unaligned` is set: a cut may then be anywhere, and the next read begins less than an
// element before the cut.
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

read_op staged_read(std::uint32_t file, std::uint64_t file_offset, const plan& new_plan) {
  const auto copies = static_cast<std::uint32_t>(new_plan.copies.size());
  const auto feeds = static_cast<std::uint32_t>(new_plan.feeds.size());
  return {
      .file_offset = file_offset,
      .destination_offset = read_op::staged,
      .destination = 0,
      .file = file,
      .bytes = 0,
      .bytes_needed = 0,
      .copies_begin = copies,
      .copies_end = copies,
      .feeds_begin = feeds,
      .feeds_end = feeds,
      .parts_begin = 0,
      .parts_end = 0,
  };
}

class stager {
 public:
  stager(std::uint32_t file, std::span<const segment> segments, std::span<const stored_item> items,
         std::uint64_t slot_bytes, plan& new_plan)
      : file_(file), segments_(segments), items_(items), slot_bytes_(slot_bytes), plan_(new_plan) {}

  void run();

 private:
  // A segment and the offset at which it continues, because it was cut or did not fit.
  struct rest {
    std::uint32_t segment;
    std::uint64_t next;
  };

  void take(rest remaining);
  void take_stream(const segment& wanted, rest remaining);
  void take_item(const segment& wanted, rest remaining);
  void add_copy(const segment& wanted, std::uint64_t from, std::uint32_t bytes);
  bool joins(const stored_item& item, const copy_op& copy) const;
  void reach(std::uint64_t end);

  read_op& now() { return plan_.reads.back(); }
  std::uint32_t read() const { return static_cast<std::uint32_t>(plan_.reads.size() - 1); }
  std::uint64_t limit() const { return plan_.reads.back().file_offset + slot_bytes_; }

  const std::uint32_t file_;
  std::span<const segment> segments_;
  std::span<const stored_item> items_;
  const std::uint64_t slot_bytes_;
  plan& plan_;
  std::vector<rest> left_;              // Segments to continue in the next read.
  std::uint64_t reached_ = 0;           // End of the wanted bytes in the current read.
  std::uint32_t last_item_ = no_index;  // The item of the current read's last copy.
};

void stager::run() {
  const auto count = static_cast<std::uint32_t>(segments_.size());
  std::vector<rest> begun;
  for (std::uint32_t next = 0; next < count || !left_.empty();) {
    std::uint64_t first = next < count ? segments_[next].begin : ~std::uint64_t{0};
    for (const rest& remaining : left_) first = std::min(first, remaining.next);
    plan_.reads.push_back(staged_read(file_, round_down(first, std::uint64_t{block_bytes}), plan_));
    reached_ = first;
    last_item_ = no_index;

    begun.clear();
    begun.swap(left_);
    for (const rest& remaining : begun) take(remaining);
    for (; next < count; ++next) {
      const std::uint64_t begin = segments_[next].begin;
      const bool near = begin <= reached_ || begin - reached_ < read_through_bytes;
      if (!near || begin >= limit()) break;
      take({next, begin});
    }
  }
}

void stager::take(rest remaining) {
  const segment& wanted = segments_[remaining.segment];
  if (wanted.is_stream) return take_stream(wanted, remaining);
  take_item(wanted, remaining);
}

void stager::take_stream(const segment& wanted, rest remaining) {
  if (wanted.end > limit() || wanted.begin < now().file_offset) {
    left_.push_back(remaining);
    return;
  }
  const auto slot_offset = static_cast<std::uint32_t>(wanted.begin - now().file_offset);
  plan_.feeds.push_back(
      {wanted.index, slot_offset, static_cast<std::uint32_t>(wanted.end - wanted.begin), 0});
  now().feeds_end += 1;
  plan_.streams[wanted.index].reads_begin = read();
  plan_.streams[wanted.index].reads_end = read() + 1;
  reach(wanted.end);
}

// Adds to the read as much of the item from `remaining.next` on as fits. An element that would end
// in the next slot is left to the next read. That read then begins a block earlier, so this block
// is read twice.
void stager::take_item(const segment& wanted, rest remaining) {
  const stored_item& item = items_[wanted.index];
  const cut_unit unit = unit_of(item, plan_);
  std::uint64_t end = std::min(wanted.end, limit());
  if (end < wanted.end && !unit.unaligned) end -= (end - item.begin) % unit.bytes;
  if (end < remaining.next + unit.bytes) {
    left_.push_back(remaining);
    return;
  }
  add_copy(wanted, remaining.next, static_cast<std::uint32_t>(end - remaining.next));
  reach(end);
  if (end < wanted.end)
    left_.push_back({remaining.segment, unit.unaligned ? end - (unit.bytes - 1) : end});
}

// Returns true if a copy can extend the previous copy, including the bytes between them. In an
// arena, two tensors with the same distance as in the file have only padding between them, because
// unconverted staged tensors are placed in file order. Elsewhere no unwanted byte may be written.
bool stager::joins(const stored_item& item, const copy_op& copy) const {
  const read_op& read = plan_.reads.back();
  if (read.copies_end == read.copies_begin || copy.map != no_index || copy.cast.needed())
    return false;
  const copy_op& before = plan_.copies.back();
  if (before.map != no_index || before.cast.needed() || before.destination != copy.destination) {
    return false;
  }
  if (item.own_place && items_[last_item_].own_place && item.only && items_[last_item_].only) {
    return copy.destination_offset - before.destination_offset ==
           copy.slot_offset - before.slot_offset;
  }
  return before.slot_offset + before.bytes == copy.slot_offset &&
         before.destination_offset + before.bytes == copy.destination_offset;
}

void stager::add_copy(const segment& wanted, std::uint64_t from, std::uint32_t bytes) {
  const stored_item& item = items_[wanted.index];
  const std::uint64_t before = from - item.begin;
  copy_op copy = {
      .destination_offset = item.destination_offset,
      .slot_offset = static_cast<std::uint32_t>(from - now().file_offset),
      .bytes = bytes,
      .destination = item.destination,
      .map = item.map,
      .source_offset = 0,
      .cast = item.cast,
  };
  if (item.map != no_index) {
    copy.source_offset = before;
  } else if (item.cast.needed()) {
    copy.destination_offset += before / item.cast.from_bytes() * item.cast.to_bytes();
  } else {
    copy.destination_offset += before;
  }
  // Rows of one map in the same read form one copy.
  const bool next_row = item.map != no_index && last_item_ == wanted.index;
  if (next_row || joins(item, copy)) {
    copy_op& longer = plan_.copies.back();
    longer.bytes = copy.slot_offset + copy.bytes - longer.slot_offset;
  } else {
    plan_.copies.push_back(copy);
    now().copies_end += 1;
  }
  last_item_ = wanted.index;
  part& feeds = plan_.parts[wanted.index];
  if (feeds.reads_end == 0) feeds.reads_begin = read();
  feeds.reads_end = read() + 1;
}

void stager::reach(std::uint64_t end) {
  reached_ = std::max(reached_, end);
  const auto needed = static_cast<std::uint32_t>(end - now().file_offset);
  now().bytes_needed = std::max(now().bytes_needed, needed);
  now().bytes = round_up(now().bytes_needed, block_bytes);
}

}  // namespace

std::vector<range> rows_of(const strided_map& map, std::uint64_t max) {
  // The dimensions from `rows` on are close enough for one read. In each dimension outside them,
  // consecutive indices are far apart.
  std::uint64_t span = map.element_bytes;
  std::uint64_t row_bytes = span;
  std::uint32_t rows = map.rank;
  for (std::uint32_t d = map.rank; d > 0; --d) {
    const strided_dimension& dim = map.dimensions[d - 1];
    const bool interleaved = dim.source_stride < span;
    const bool near = rows == d && !interleaved && dim.source_stride - span < read_through_bytes;
    span += (dim.count - 1) * dim.source_stride;
    if (!near && !interleaved) continue;
    rows = d - 1;
    row_bytes = span;
  }
  std::vector<range> ranges = {{0, row_bytes}};
  for (std::uint32_t d = rows; d > 0; --d) {
    const strided_dimension& dim = map.dimensions[d - 1];
    if (dim.count > max / ranges.size()) return {};
    const std::size_t inside = ranges.size();
    ranges.reserve(inside * dim.count);
    for (std::uint64_t i = 1; i < dim.count; ++i) {
      for (std::size_t k = 0; k < inside; ++k) {
        const std::uint64_t further = i * dim.source_stride;
        ranges.push_back({ranges[k].begin + further, ranges[k].end + further});
      }
    }
  }
  return ranges;
}

void stage(std::uint32_t file, std::span<const segment> segments,
           std::span<const stored_item> items, std::uint64_t slot_bytes, plan& new_plan) {
  stager(file, segments, items, slot_bytes, new_plan).run();
}

void stage_chain(std::uint32_t stream, const wanted_stream& stored, std::uint64_t slot_bytes,
                 plan& new_plan) {
  new_plan.streams[stream].reads_begin = static_cast<std::uint32_t>(new_plan.reads.size());
  const std::uint64_t end = stored.offset + stored.bytes;
  for (std::uint64_t offset = stored.offset; offset < end;) {
    read_op read =
        staged_read(stored.file, round_down(offset, std::uint64_t{block_bytes}), new_plan);
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
}

}  // namespace ringload::inline v0
