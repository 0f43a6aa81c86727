// SPDX-License-Identifier: Apache-2.0
#include "plan/straight.hpp"

#include <algorithm>

#include "core/checked.hpp"
#include "plan/make_plan.hpp"

namespace ringload::inline v0 {

namespace {

read_op straight_read(std::uint32_t file, std::uint64_t file_offset, arena_layout::place to,
                      std::uint64_t needed, const plan& made) {
  const auto copies = static_cast<std::uint32_t>(made.copies.size());
  const auto feeds = static_cast<std::uint32_t>(made.feeds.size());
  return {
      .file_offset = file_offset,
      .destination_offset = to.offset,
      .destination = to.destination,
      .file = file,
      .bytes = static_cast<std::uint32_t>(round_up(needed, std::uint64_t{block_bytes})),
      .bytes_needed = static_cast<std::uint32_t>(needed),
      .copies_begin = copies,
      .copies_end = copies,
      .feeds_begin = feeds,
      .feeds_end = feeds,
      .parts_begin = 0,
      .parts_end = 0,
  };
}

bool continues(const copy_op& before, const copy_op& with) {
  return before.slot_offset + before.bytes == with.slot_offset &&
         before.destination_offset + before.bytes == with.destination_offset;
}

// What of a replica a read brings.
void copy_to(const stored_item& replica, read_op& read, plan& made) {
  const std::uint64_t read_end = read.file_offset + read.bytes_needed;
  const std::uint64_t begin = std::max(replica.begin, read.file_offset);
  const std::uint64_t end = std::min(replica.end, read_end);
  if (begin >= end) return;
  const copy_op with = {
      .destination_offset = made.tensors[replica.tensor].destination_offset +
                            replica.destination_offset + (begin - replica.begin),
      .slot_offset = static_cast<std::uint32_t>(begin - read.file_offset),
      .bytes = static_cast<std::uint32_t>(end - begin),
      .destination = replica.destination,
  };
  // Those of the tensors before it stand just before, one for each arena.
  constexpr std::uint32_t looked_at = 8;
  const std::uint32_t count = read.copies_end - read.copies_begin;
  for (std::uint32_t k = 0; k < std::min(count, looked_at); ++k) {
    copy_op& before = made.copies[read.copies_end - 1 - k];
    if (before.destination != with.destination) continue;
    if (!continues(before, with)) break;
    before.bytes += with.bytes;
    return;
  }
  made.copies.push_back(with);
  read.copies_end += 1;
}

// The copies of the reads from that one on, which are those of a run.
void copy_replicas(const straight_run& one, std::span<const stored_item> items,
                   std::uint32_t first_read, plan& made) {
  const std::vector<std::uint32_t> replicas = replicas_of(one, items);
  std::size_t next = 0;
  for (std::size_t r = first_read; r < made.reads.size() && !replicas.empty(); ++r) {
    read_op& read = made.reads[r];
    read.copies_begin = read.copies_end = static_cast<std::uint32_t>(made.copies.size());
    while (next < replicas.size() && items[replicas[next]].end <= read.file_offset) ++next;
    for (std::size_t k = next; k < replicas.size(); ++k) {
      if (items[replicas[k]].begin >= read.file_offset + read.bytes_needed) break;
      copy_to(items[replicas[k]], read, made);
    }
  }
}

}  // namespace

std::vector<std::uint32_t> replicas_of(const straight_run& one,
                                       std::span<const stored_item> items) {
  std::vector<std::uint32_t> found;
  for (std::uint32_t i = one.first; i < items.size(); ++i) {
    if (items[i].file != items[one.first].file || items[i].begin >= one.end) break;
    const std::uint32_t of = items[i].replica_of;
    if (of == no_index || of < one.first || of >= one.last) continue;
    if (straight_run::takes(items[of])) found.push_back(i);
  }
  return found;
}

straight_run run_from(std::uint32_t first, std::uint32_t last, std::span<const stored_item> items) {
  straight_run made = {first, first + 1, items[first].end};
  for (std::uint32_t next = made.last; next < last; ++next) {
    const stored_item& more = items[next];
    if (!straight_run::takes(more)) continue;
    if (more.begin > made.end && more.begin - made.end >= read_through_bytes) break;
    made.is_cut = more.destination != items[first].destination;
    if (made.is_cut || more.shift != items[first].shift) break;
    made.end = std::max(made.end, more.end);
    made.last = next + 1;
  }
  return made;
}

// Example, with slots of 2 MiB: a run of 5 MiB from file offset 8,192 that was given the arena from
// 1 MiB on becomes reads of 1, 2 and 2 MiB, which end where the arena reaches 2, 4 and 6 MiB.
void read_run(const straight_run& one, arena_layout::place to, std::span<const stored_item> items,
              std::uint64_t slot_bytes, plan& made) {
  const stored_item& head = items[one.first];
  const std::uint64_t begin = round_down(head.begin, std::uint64_t{block_bytes});
  const auto first_read = static_cast<std::uint32_t>(made.reads.size());
  for (std::uint64_t at = begin; at < one.end;) {
    const std::uint64_t arena_at = to.offset + (at - begin);
    const std::uint64_t room = round_down(arena_at, slot_bytes) + slot_bytes - arena_at;
    const std::uint64_t needed = std::min(room, one.end - at);
    const arena_layout::place lands = {to.destination, arena_at + head.shift};
    made.reads.push_back(straight_read(head.file, at, lands, needed, made));
    at += needed;
  }
  const auto read_of = [&](std::uint64_t at) {
    const std::uint64_t slots = (to.offset + (at - begin)) / slot_bytes - to.offset / slot_bytes;
    return first_read + static_cast<std::uint32_t>(slots);
  };
  for (std::uint32_t i = one.first; i < one.last; ++i) {
    if (!straight_run::takes(items[i])) continue;
    made.parts[i].straight = true;
    made.parts[i].reads_begin = read_of(items[i].begin);
    made.parts[i].reads_end = read_of(items[i].end - 1) + 1;
  }
  copy_replicas(one, items, first_read, made);
}

void read_straight(std::uint32_t part, const stored_item& item, std::uint64_t slot_bytes,
                   plan& made) {
  made.parts[part].straight = true;
  made.parts[part].reads_begin = static_cast<std::uint32_t>(made.reads.size());
  for (std::uint64_t at = item.begin; at < item.end;) {
    const std::uint64_t needed = std::min(slot_bytes, item.end - at);
    const std::uint64_t offset = item.destination_offset + (at - item.begin);
    made.reads.push_back(straight_read(item.file, at, {item.destination, offset}, needed, made));
    at += needed;
  }
  made.parts[part].reads_end = static_cast<std::uint32_t>(made.reads.size());
}

}  // namespace ringload::inline v0
