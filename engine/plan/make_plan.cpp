// SPDX-License-Identifier: Apache-2.0
#include "plan/make_plan.hpp"

#include <algorithm>
#include <cassert>

#include "core/checked.hpp"

namespace ringload::inline v0 {

namespace {

class planner {
 public:
  planner(std::span<const extent> wanted, const layout_rules& rules, std::uint64_t slot_bytes,
          std::uint64_t arena_bytes_max)
      : wanted_(wanted), rules_(rules), slot_bytes_(slot_bytes), arena_bytes_max_(arena_bytes_max) {
    made_.tensors.resize(wanted.size());
  }

  // False when a sum leaves 64 bits.
  bool run();

  // The sum goes on then, to be told, but no more reads are made: a sparse file may promise more of
  // them than fit in memory.
  bool too_large() const { return made_.arena_bytes > arena_bytes_max_; }

  plan&& take() { return std::move(made_); }

 private:
  std::uint64_t end_of(std::uint32_t t) const { return wanted_[t].offset + wanted_[t].bytes; }
  std::uint64_t alignment_of(std::uint32_t t) const {
    return std::max<std::uint64_t>(wanted_[t].alignment, rules_.tensor_alignment);
  }

  bool place(std::uint32_t first, std::uint32_t last);
  void place_straight_run(std::uint32_t first, std::uint32_t last, std::uint64_t run_end);
  void read_staged(std::uint32_t first, std::uint32_t last);
  bool has_room(const read_op& in, std::uint32_t t, std::uint64_t from) const;
  void add_staged_read(std::uint64_t file_offset, std::uint32_t file, std::uint32_t t);
  bool take_piece(read_op& into, std::uint32_t t, std::uint64_t from);
  bool reserve(std::uint64_t bytes, std::uint64_t alignment);

  std::span<const extent> wanted_;
  const layout_rules& rules_;
  const std::uint64_t slot_bytes_;
  const std::uint64_t arena_bytes_max_;
  plan made_;
  std::uint64_t reserved_at_ = 0;  // Where the last reserve() put its bytes.
};

bool planner::reserve(std::uint64_t bytes, std::uint64_t alignment) {
  const auto padded = checked_add(made_.arena_bytes, alignment - 1);
  if (!padded) return false;
  reserved_at_ = round_down(*padded, alignment);
  const auto end = checked_add(reserved_at_, bytes);
  // One block is kept back, so that the caller can round up without looking.
  if (!end || *end > ~std::uint64_t{0} - block_bytes) return false;
  made_.arena_bytes = *end;
  return true;
}

bool planner::run() {
  const auto count = static_cast<std::uint32_t>(wanted_.size());
  for (std::uint32_t first = 0; first < count;) {
    std::uint32_t last = first;
    while (last < count && wanted_[last].file == wanted_[first].file) ++last;
    if (!place(first, last)) return false;
    read_staged(first, last);
    first = last;
  }
  made_.arena_bytes =
      round_up(std::max<std::uint64_t>(made_.arena_bytes, 1), std::uint64_t{block_bytes});
  return true;
}

// Gives each tensor of one file its place in the arena, and makes the straight reads.
bool planner::place(std::uint32_t first, std::uint32_t last) {
  for (std::uint32_t t = first; t < last; ++t) {
    const bool converted = wanted_[t].as.needed();
    made_.tensors[t].as = wanted_[t].as;
    made_.tensors[t].straight =
        rules_.straight && !converted && wanted_[t].offset % alignment_of(t) == 0;
  }
  for (std::uint32_t t = first; t < last;) {
    if (wanted_[t].bytes == 0 || !made_.tensors[t].straight) {
      ++t;
      continue;
    }
    // A run: straight tensors that are near enough to be read in one go.
    std::uint64_t run_end = end_of(t);
    std::uint32_t next = t + 1;
    std::uint32_t run_last = next;
    for (; next < last; ++next) {
      if (wanted_[next].bytes == 0 || !made_.tensors[next].straight) continue;
      if (wanted_[next].offset - run_end >= read_through_bytes) break;
      run_end = end_of(next);
      run_last = next + 1;
    }
    const std::uint64_t begin = round_down(wanted_[t].offset, std::uint64_t{block_bytes});
    const std::uint64_t bytes = round_up(run_end, std::uint64_t{block_bytes}) - begin;
    if (!reserve(bytes, bytes >= rules_.aligned_run_bytes ? slot_bytes_ : block_bytes))
      return false;
    place_straight_run(t, run_last, run_end);
    t = next;
  }
  for (std::uint32_t t = first; t < last; ++t) {
    if (wanted_[t].bytes == 0 || made_.tensors[t].straight) continue;
    const conversion as = wanted_[t].as;
    const auto landed = checked_multiply(wanted_[t].bytes / as.from_bytes(), as.to_bytes());
    const auto bytes = as.needed() ? landed : wanted_[t].bytes;
    if (!bytes || !reserve(*bytes, alignment_of(t))) return false;
    made_.tensors[t].arena_offset = reserved_at_;
  }
  return true;
}

// Example, with slots of 2 MiB: a run of 5 MiB from file offset 8,192 that was given the arena from
// 1 MiB on becomes reads of 1, 2 and 2 MiB, which end where the arena reaches 2, 4 and 6 MiB.
void planner::place_straight_run(std::uint32_t first, std::uint32_t last, std::uint64_t run_end) {
  const std::uint64_t begin = round_down(wanted_[first].offset, std::uint64_t{block_bytes});
  for (std::uint32_t t = first; t < last; ++t) {
    if (wanted_[t].bytes == 0 || !made_.tensors[t].straight) continue;
    made_.tensors[t].arena_offset = reserved_at_ + (wanted_[t].offset - begin);
  }

  if (too_large()) return;
  std::uint32_t t = first;
  for (std::uint64_t at = begin; at < run_end;) {
    const std::uint64_t arena_at = reserved_at_ + (at - begin);
    const std::uint64_t room = round_down(arena_at, slot_bytes_) + slot_bytes_ - arena_at;
    const std::uint64_t needed = std::min(room, run_end - at);
    const auto read = static_cast<std::uint32_t>(made_.reads.size());

    while (end_of(t) <= at) ++t;  // Tensors that ended with the read before, and empty ones.
    std::uint32_t t_end = t;
    for (; t_end < last && wanted_[t_end].offset < at + needed; ++t_end) {
      placement& p = made_.tensors[t_end];
      if (wanted_[t_end].bytes == 0 || !p.straight) continue;
      if (p.reads_end == 0) p.reads_begin = read;
      p.reads_end = read + 1;
    }
    made_.reads.push_back({
        .file_offset = at,
        .arena_offset = arena_at,
        .file = wanted_[first].file,
        .bytes = static_cast<std::uint32_t>(round_up(needed, std::uint64_t{block_bytes})),
        .bytes_needed = static_cast<std::uint32_t>(needed),
        .copies_begin = 0,
        .copies_end = 0,
        .tensors_begin = t,
        .tensors_end = t_end,
    });
    at += needed;
  }
}

// Covers the staged tensors of one file with reads, each at most a slot long.
void planner::read_staged(std::uint32_t first, std::uint32_t last) {
  if (too_large()) return;
  bool open = false;
  std::uint64_t reached = 0;  // The end of the wanted bytes in the open read.
  for (std::uint32_t t = first; t < last; ++t) {
    if (wanted_[t].bytes == 0 || made_.tensors[t].straight) continue;
    std::uint64_t from = wanted_[t].offset;
    if (open) {
      const read_op& now = made_.reads.back();
      const bool fits = from < now.file_offset + slot_bytes_;
      open = fits && from - reached < read_through_bytes;
    }
    while (from < end_of(t)) {
      open = open && has_room(made_.reads.back(), t, from);
      if (!open) add_staged_read(round_down(from, std::uint64_t{block_bytes}), wanted_[t].file, t);
      read_op& now = made_.reads.back();
      open = take_piece(now, t, from);
      reached = now.file_offset + now.bytes_needed;
      from = reached;
    }
  }
}

void planner::add_staged_read(std::uint64_t file_offset, std::uint32_t file, std::uint32_t t) {
  const auto copies = static_cast<std::uint32_t>(made_.copies.size());
  made_.reads.push_back({
      .file_offset = file_offset,
      .arena_offset = read_op::staged,
      .file = file,
      .bytes = 0,
      .bytes_needed = 0,
      .copies_begin = copies,
      .copies_end = copies,
      .tensors_begin = t,
      .tensors_end = t,
  });
}

// Whether the read can hold at least an element of the tensor, from `from` on.
bool planner::has_room(const read_op& in, std::uint32_t t, std::uint64_t from) const {
  const std::uint32_t least = wanted_[t].as.needed() ? wanted_[t].as.from_bytes() : 1;
  return in.file_offset + slot_bytes_ - from >= least;
}

// Adds to the read what it can hold of the tensor from `from` on. False when the read is full.
//
// What is converted goes in whole elements. An element that would end in the next slot is left to
// it: that read begins a block earlier than it would, so this block is read twice.
bool planner::take_piece(read_op& into, std::uint32_t t, std::uint64_t from) {
  const std::uint64_t limit = into.file_offset + slot_bytes_;
  const conversion as = wanted_[t].as;
  const std::uint32_t unit = as.needed() ? as.from_bytes() : 1;
  std::uint64_t end = std::min(end_of(t), limit);
  end -= (end - wanted_[t].offset) % unit;
  const auto slot_offset = static_cast<std::uint32_t>(from - into.file_offset);
  const auto bytes = static_cast<std::uint32_t>(end - from);
  placement& p = made_.tensors[t];
  const std::uint64_t arena_offset =
      p.arena_offset + (from - wanted_[t].offset) / unit * (as.needed() ? as.to_bytes() : 1);

  // A copy goes on as long as file and arena keep their distance; the padding between two tensors
  // is then copied with them. What is converted is a copy of its own.
  const bool first_copy = into.copies_end == into.copies_begin;
  copy_op* before = first_copy ? nullptr : &made_.copies.back();
  const bool joins = before && !as.needed() && !before->as.needed();
  if (joins && arena_offset - before->arena_offset == slot_offset - before->slot_offset) {
    before->bytes = slot_offset + bytes - before->slot_offset;
  } else {
    made_.copies.push_back({arena_offset, slot_offset, bytes, as});
    into.copies_end += 1;
  }

  const auto read = static_cast<std::uint32_t>(&into - made_.reads.data());
  if (p.reads_end == 0) p.reads_begin = read;
  p.reads_end = read + 1;
  into.tensors_end = t + 1;
  into.bytes_needed = slot_offset + bytes;
  into.bytes = round_up(into.bytes_needed, block_bytes);
  return end < limit;
}

}  // namespace

result<plan> make_plan(std::span<const extent> wanted, const layout_rules& rules,
                       std::uint64_t slot_bytes, std::uint64_t arena_bytes_max) {
  assert(slot_bytes >= block_bytes && (slot_bytes & (slot_bytes - 1)) == 0);
  planner work(wanted, rules, slot_bytes, arena_bytes_max);
  if (!work.run()) {
    return fault{errc::size_overflow, "", "the tensors' bytes do not add up within 64 bits"};
  }
  const bool too_large = work.too_large();
  plan made = work.take();
  if (too_large) {
    return fault{errc::memory_exceeded, "",
                 "the tensors need " + grouped(made.arena_bytes) + " bytes, the limit is " +
                     grouped(arena_bytes_max)};
  }
  return made;
}

}  // namespace ringload::inline v0
