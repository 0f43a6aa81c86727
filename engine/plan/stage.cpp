// SPDX-License-Identifier: Apache-2.0
#include "plan/stage.hpp"

#include <algorithm>

#include "core/checked.hpp"
#include "plan/make_plan.hpp"

namespace ringload::inline v0 {

namespace {

// What stored bytes may be cut at: multiples of `bytes` from their beginning; or, where elements
// lie anyhow, anywhere, and what follows then begins less than an element before the cut.
struct cut_unit {
  std::uint32_t bytes = 1;
  bool anyhow = false;
};

cut_unit unit_of(const stored_item& item, const plan& made) {
  if (item.map == no_index) return {item.as.needed() ? item.as.from_bytes() : 1, false};
  const strided_map& map = made.maps[item.map];
  bool anyhow = false;
  for (std::uint32_t d = 0; d < map.rank; ++d) {
    anyhow = anyhow || map.dimensions[d].source_stride % map.element_bytes != 0;
  }
  return {map.element_bytes, anyhow};
}

read_op staged_read(std::uint32_t file, std::uint64_t file_offset, const plan& made) {
  const auto copies = static_cast<std::uint32_t>(made.copies.size());
  const auto feeds = static_cast<std::uint32_t>(made.feeds.size());
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
         std::uint64_t slot_bytes, plan& made)
      : file_(file), segments_(segments), items_(items), slot_bytes_(slot_bytes), made_(made) {}

  void run();

 private:
  // A segment, and where it goes on: it was cut, or did not fit.
  struct rest {
    std::uint32_t which;
    std::uint64_t next;
  };

  void take(rest one);
  void take_stream(const segment& of, rest one);
  void take_item(const segment& of, rest one);
  void add_copy(const segment& of, std::uint64_t from, std::uint32_t bytes);
  bool joins(const stored_item& item, const copy_op& with) const;
  void reach(std::uint64_t end);

  read_op& now() { return made_.reads.back(); }
  std::uint32_t read() const { return static_cast<std::uint32_t>(made_.reads.size() - 1); }
  std::uint64_t limit() const { return made_.reads.back().file_offset + slot_bytes_; }

  const std::uint32_t file_;
  std::span<const segment> segments_;
  std::span<const stored_item> items_;
  const std::uint64_t slot_bytes_;
  plan& made_;
  std::vector<rest> left_;              // For the next read.
  std::uint64_t reached_ = 0;           // The end of the wanted bytes in the open read.
  std::uint32_t last_item_ = no_index;  // Whose copy is the open read's last.
};

void stager::run() {
  const auto count = static_cast<std::uint32_t>(segments_.size());
  std::vector<rest> begun;
  for (std::uint32_t next = 0; next < count || !left_.empty();) {
    std::uint64_t at = next < count ? segments_[next].begin : ~std::uint64_t{0};
    for (const rest& one : left_) at = std::min(at, one.next);
    made_.reads.push_back(staged_read(file_, round_down(at, std::uint64_t{block_bytes}), made_));
    reached_ = at;
    last_item_ = no_index;

    begun.clear();
    begun.swap(left_);
    for (const rest& one : begun) take(one);
    for (; next < count; ++next) {
      const std::uint64_t begin = segments_[next].begin;
      const bool near = begin <= reached_ || begin - reached_ < read_through_bytes;
      if (!near || begin >= limit()) break;
      take({next, begin});
    }
  }
}

void stager::take(rest one) {
  const segment& of = segments_[one.which];
  if (of.is_stream) return take_stream(of, one);
  take_item(of, one);
}

void stager::take_stream(const segment& of, rest one) {
  if (of.end > limit() || of.begin < now().file_offset) {
    left_.push_back(one);
    return;
  }
  const auto slot_offset = static_cast<std::uint32_t>(of.begin - now().file_offset);
  made_.feeds.push_back({of.index, slot_offset, static_cast<std::uint32_t>(of.end - of.begin), 0});
  now().feeds_end += 1;
  made_.streams[of.index].reads_begin = read();
  made_.streams[of.index].reads_end = read() + 1;
  reach(of.end);
}

// Adds to the read what it can hold of the item from `one.next` on. An element that would end in
// the next slot is left to it: that read begins a block earlier than it would, so this block is
// read twice.
void stager::take_item(const segment& of, rest one) {
  const stored_item& item = items_[of.index];
  const cut_unit unit = unit_of(item, made_);
  std::uint64_t end = std::min(of.end, limit());
  if (end < of.end && !unit.anyhow) end -= (end - item.begin) % unit.bytes;
  if (end < one.next + unit.bytes) {
    left_.push_back(one);
    return;
  }
  add_copy(of, one.next, static_cast<std::uint32_t>(end - one.next));
  reach(end);
  if (end < of.end) left_.push_back({one.which, unit.anyhow ? end - (unit.bytes - 1) : end});
}

// Whether a copy can be the end of the one before, and what lies between is copied with it. In the
// arena only padding lies between two tensors whose distance is the same there as in the file:
// those that are staged as they are stand there one after another. Elsewhere nothing may be written
// that is not wanted.
bool stager::joins(const stored_item& item, const copy_op& with) const {
  const read_op& read = made_.reads.back();
  if (read.copies_end == read.copies_begin || with.map != no_index || with.as.needed())
    return false;
  const copy_op& before = made_.copies.back();
  if (before.map != no_index || before.as.needed() || before.destination != with.destination) {
    return false;
  }
  if (item.own_place && items_[last_item_].own_place && item.only && items_[last_item_].only) {
    return with.destination_offset - before.destination_offset ==
           with.slot_offset - before.slot_offset;
  }
  return before.slot_offset + before.bytes == with.slot_offset &&
         before.destination_offset + before.bytes == with.destination_offset;
}

void stager::add_copy(const segment& of, std::uint64_t from, std::uint32_t bytes) {
  const stored_item& item = items_[of.index];
  const std::uint64_t before = from - item.begin;
  copy_op with = {
      .destination_offset = item.destination_offset,
      .slot_offset = static_cast<std::uint32_t>(from - now().file_offset),
      .bytes = bytes,
      .destination = item.destination,
      .map = item.map,
      .source_offset = 0,
      .as = item.as,
  };
  if (item.map != no_index) {
    with.source_offset = before;
  } else if (item.as.needed()) {
    with.destination_offset += before / item.as.from_bytes() * item.as.to_bytes();
  } else {
    with.destination_offset += before;
  }
  // Rows of one map that the same read brings are one copy.
  const bool next_row = item.map != no_index && last_item_ == of.index;
  if (next_row || joins(item, with)) {
    copy_op& longer = made_.copies.back();
    longer.bytes = with.slot_offset + with.bytes - longer.slot_offset;
  } else {
    made_.copies.push_back(with);
    now().copies_end += 1;
  }
  last_item_ = of.index;
  part& feeds = made_.parts[of.index];
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
  // The dimensions from `rows` on are near enough to be read through; of those outside each index
  // lies apart from the next.
  std::uint64_t span = map.element_bytes;
  std::uint64_t row_bytes = span;
  std::uint32_t rows = map.rank;
  for (std::uint32_t d = map.rank; d > 0; --d) {
    const strided_dimension& one = map.dimensions[d - 1];
    const bool interleaved = one.source_stride < span;
    const bool near = rows == d && !interleaved && one.source_stride - span < read_through_bytes;
    span += (one.count - 1) * one.source_stride;
    if (!near && !interleaved) continue;
    rows = d - 1;
    row_bytes = span;
  }
  std::vector<range> made = {{0, row_bytes}};
  for (std::uint32_t d = rows; d > 0; --d) {
    const strided_dimension& one = map.dimensions[d - 1];
    if (one.count > max / made.size()) return {};
    const std::size_t inside = made.size();
    made.reserve(inside * one.count);
    for (std::uint64_t i = 1; i < one.count; ++i) {
      for (std::size_t k = 0; k < inside; ++k) {
        const std::uint64_t further = i * one.source_stride;
        made.push_back({made[k].begin + further, made[k].end + further});
      }
    }
  }
  return made;
}

void stage(std::uint32_t file, std::span<const segment> segments,
           std::span<const stored_item> items, std::uint64_t slot_bytes, plan& made) {
  stager(file, segments, items, slot_bytes, made).run();
}

void stage_chain(std::uint32_t stream, const wanted_stream& stored, std::uint64_t slot_bytes,
                 plan& made) {
  made.streams[stream].reads_begin = static_cast<std::uint32_t>(made.reads.size());
  const std::uint64_t end = stored.offset + stored.bytes;
  for (std::uint64_t at = stored.offset; at < end;) {
    read_op read = staged_read(stored.file, round_down(at, std::uint64_t{block_bytes}), made);
    const std::uint64_t reached = std::min(end, read.file_offset + slot_bytes);
    read.bytes_needed = static_cast<std::uint32_t>(reached - read.file_offset);
    read.bytes = round_up(read.bytes_needed, block_bytes);
    read.feeds_end += 1;
    made.feeds.push_back({stream, static_cast<std::uint32_t>(at - read.file_offset),
                          static_cast<std::uint32_t>(reached - at), at - stored.offset});
    made.reads.push_back(read);
    at = reached;
  }
  made.streams[stream].reads_end = static_cast<std::uint32_t>(made.reads.size());
}

}  // namespace ringload::inline v0
