// SPDX-License-Identifier: Apache-2.0

#include "plan/unstaged_reads.hpp"

#include <algorithm>

#include "base/checked.hpp"
#include "plan/placement_rules.hpp"

namespace ringload::inline v0 {

namespace {

read_op unstaged_read(std::uint32_t file, std::uint64_t file_offset, arena_layout::position to,
                      std::uint64_t needed, const plan& new_plan) {
  read_op read = empty_read(file, file_offset, new_plan);
  read.destination_offset = to.offset;
  read.destination = to.destination;
  read.bytes_needed = static_cast<std::uint32_t>(needed);
  read.bytes = static_cast<std::uint32_t>(round_up(needed, std::uint64_t{block_bytes}));
  return read;
}

bool continues(const copy_op& before, const copy_op& copy) {
  return before.slot_offset + before.bytes == copy.slot_offset &&
         before.destination_offset + before.bytes == copy.destination_offset;
}

// Adds the copy of the bytes of `replica` that `read` fetches.
void copy_to(const stored_item& replica, read_op& read, plan& new_plan) {
  const std::uint64_t read_end = read.file_offset + read.bytes_needed;
  const std::uint64_t begin = std::max(replica.begin, read.file_offset);
  const std::uint64_t end = std::min(replica.end, read_end);
  if (begin >= end) return;
  const copy_op copy = {
      .destination_offset = new_plan.tensors[replica.tensor].destination_offset +
                            replica.destination_offset + (begin - replica.begin),
      .slot_offset = static_cast<std::uint32_t>(begin - read.file_offset),
      .bytes = static_cast<std::uint32_t>(end - begin),
      .destination = replica.destination,
  };
  // The copies of a read alternate between the arenas, so the copy to extend is among the last
  // copies of the read.
  constexpr std::uint32_t candidates_max = 8;
  const std::uint32_t count = read.copies_end - read.copies_begin;
  for (std::uint32_t k = 0; k < std::min(count, candidates_max); ++k) {
    copy_op& before = new_plan.copies[read.copies_end - 1 - k];
    if (before.destination != copy.destination) continue;
    if (!continues(before, copy)) break;
    before.bytes += copy.bytes;
    return;
  }
  new_plan.copies.push_back(copy);
  read.copies_end += 1;
}

// Adds the copies of replicas to the reads of a run. The first read of the run is `first_read`.
void copy_replicas(const unstaged_run& run, std::span<const stored_item> items,
                   std::uint32_t first_read, plan& new_plan) {
  const std::vector<std::uint32_t> replicas = replicas_of(run, items);
  std::size_t next = 0;
  for (std::size_t r = first_read; r < new_plan.reads.size() && !replicas.empty(); ++r) {
    read_op& read = new_plan.reads[r];
    read.copies_begin = read.copies_end = static_cast<std::uint32_t>(new_plan.copies.size());
    while (next < replicas.size() && items[replicas[next]].end <= read.file_offset) ++next;
    for (std::size_t k = next; k < replicas.size(); ++k) {
      if (items[replicas[k]].begin >= read.file_offset + read.bytes_needed) break;
      copy_to(items[replicas[k]], read, new_plan);
    }
  }
}

}  // namespace

std::vector<std::uint32_t> replicas_of(const unstaged_run& run,
                                       std::span<const stored_item> items) {
  std::vector<std::uint32_t> replicas;
  for (std::uint32_t i = run.first; i < items.size(); ++i) {
    if (items[i].file != items[run.first].file || items[i].begin >= run.end) break;
    const std::uint32_t original = items[i].replica_of;
    if (original == no_index || original < run.first || original >= run.last) continue;
    if (unstaged_run::takes(items[original])) replicas.push_back(i);
  }
  return replicas;
}

unstaged_run run_from(std::uint32_t first, std::uint32_t last, std::span<const stored_item> items) {
  unstaged_run run = {first, first + 1, items[first].end};
  for (std::uint32_t next = run.last; next < last; ++next) {
    const stored_item& more = items[next];
    if (!unstaged_run::takes(more)) continue;
    if (more.begin > run.end && more.begin - run.end >= gap_bytes_max) break;
    run.is_cut = more.destination != items[first].destination;
    if (run.is_cut || more.shift != items[first].shift) break;
    run.end = std::max(run.end, more.end);
    run.last = next + 1;
  }
  return run;
}

// Example for slots of 2 MiB: a run of 5 MiB begins at file offset 8,192 and has the arena offset 1
// MiB. The reads of the run have 1, 2 and 2 MiB, and end at the arena offsets 2, 4 and 6 MiB.
void add_run_reads(const unstaged_run& run, arena_layout::position to,
                   std::span<const stored_item> items, std::uint64_t slot_bytes, plan& new_plan) {
  const stored_item& head = items[run.first];
  const std::uint64_t begin = round_down(head.begin, std::uint64_t{block_bytes});
  const auto first_read = static_cast<std::uint32_t>(new_plan.reads.size());
  for (std::uint64_t offset = begin; offset < run.end;) {
    const std::uint64_t arena_offset = to.offset + (offset - begin);
    const std::uint64_t slot_bytes_left =
        round_down(arena_offset, slot_bytes) + slot_bytes - arena_offset;
    const std::uint64_t needed = std::min(slot_bytes_left, run.end - offset);
    const arena_layout::position target = {to.destination, arena_offset + head.shift};
    new_plan.reads.push_back(unstaged_read(head.file, offset, target, needed, new_plan));
    offset += needed;
  }
  const auto read_of = [&](std::uint64_t offset) {
    const std::uint64_t slots =
        (to.offset + (offset - begin)) / slot_bytes - to.offset / slot_bytes;
    return first_read + static_cast<std::uint32_t>(slots);
  };
  for (std::uint32_t i = run.first; i < run.last; ++i) {
    if (!unstaged_run::takes(items[i])) continue;
    new_plan.parts[i].unstaged = true;
    new_plan.parts[i].reads_begin = read_of(items[i].begin);
    new_plan.parts[i].reads_end = read_of(items[i].end - 1) + 1;
  }
  copy_replicas(run, items, first_read, new_plan);
}

void add_unstaged_reads(std::uint32_t part, const stored_item& item, std::uint64_t slot_bytes,
                        plan& new_plan) {
  new_plan.parts[part].unstaged = true;
  new_plan.parts[part].reads_begin = static_cast<std::uint32_t>(new_plan.reads.size());
  for (std::uint64_t file_offset = item.begin; file_offset < item.end;) {
    const std::uint64_t needed = std::min(slot_bytes, item.end - file_offset);
    const std::uint64_t offset = item.destination_offset + (file_offset - item.begin);
    new_plan.reads.push_back(
        unstaged_read(item.file, file_offset, {item.destination, offset}, needed, new_plan));
    file_offset += needed;
  }
  new_plan.parts[part].reads_end = static_cast<std::uint32_t>(new_plan.reads.size());
}

}  // namespace ringload::inline v0
