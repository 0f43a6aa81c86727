// SPDX-License-Identifier: Apache-2.0

// The second half of making a plan: each item gets a place in the arena, if its tensor has none,
// and the reads that bring it.

#include "plan/make_plan.hpp"

#include <algorithm>
#include <cassert>

#include "core/checked.hpp"
#include "plan/arrange.hpp"
#include "plan/order.hpp"
#include "plan/resolve.hpp"
#include "plan/stage.hpp"

namespace ringload::inline v0 {

namespace {

class planner {
 public:
  planner(const plan_input& what, resolved&& from, const layout_rules& rules,
          const plan_limits& within)
      : what_(what), rules_(rules), within_(within), items_(std::move(from.items)) {
    made_.maps = std::move(from.maps);
    made_.fills = std::move(from.fills);
    made_.fill_values = std::move(from.fill_values);
    made_.tensors = std::move(from.tensors);
    made_.bytes_wanted = from.bytes_wanted;
    placed_.resize(made_.tensors.size());
  }

  result<void> run(std::uint32_t* culprit);
  plan&& take() { return std::move(made_); }

 private:
  // The sum goes on then, to be told, but no more reads are made: a sparse file may promise more of
  // them than fit in memory.
  bool too_large() const { return made_.arena_bytes > within_.arena_bytes_max; }
  std::uint64_t alignment_of(const stored_item& i) const {
    return std::max<std::uint64_t>(what_.tensors[i.tensor].alignment, rules_.tensor_alignment);
  }

  result<void> place_blocks();
  void add_streams();
  result<void> place(std::uint32_t first, std::uint32_t last);
  result<void> place_run(std::uint32_t first, std::uint32_t last, std::uint64_t run_end);
  void read_run(std::uint32_t first, std::uint32_t last, std::uint64_t run_end);
  void read_body(std::uint32_t index);
  result<void> reserve_for(const stored_item& item);
  result<void> place_filled();
  result<void> reserve(std::uint64_t bytes, std::uint64_t alignment);
  void settle(std::uint32_t first, std::uint32_t last);
  result<void> read_staged(std::uint32_t first, std::uint32_t last, std::uint32_t* culprit);
  void add_part(std::uint32_t index);
  void finish();

  const plan_input& what_;
  const layout_rules& rules_;
  const plan_limits& within_;
  std::vector<stored_item> items_;        // From arrange() on by their place in the files.
  std::vector<bool> placed_;              // By tensor: it has a place of its own.
  std::vector<std::uint32_t> stream_op_;  // By wanted stream: which of made_.streams it is.
  std::vector<bool> read_;                // By made_.streams: it is a segment, or a chain.
  plan made_;
  std::uint64_t reserved_at_ = 0;  // Where the last reserve() put its bytes.
  std::uint64_t rows_ = 0;         // Read apart, so far.
};

result<void> planner::reserve(std::uint64_t bytes, std::uint64_t alignment) {
  const auto padded = checked_add(made_.arena_bytes, alignment - 1);
  const auto end = padded ? checked_add(round_down(*padded, alignment), bytes) : std::nullopt;
  // One block is kept back, so that the end can be rounded up without looking.
  if (!end || *end > ~std::uint64_t{0} - block_bytes) {
    return fault{errc::size_overflow, "", "the tensors' bytes do not add up within 64 bits"};
  }
  reserved_at_ = round_down(*padded, alignment);
  made_.arena_bytes = *end;
  return {};
}

result<void> planner::run(std::uint32_t* culprit) {
  if (auto good = place_blocks(); !good) return good;
  arrange(items_, what_, rules_, within_);
  made_.parts.resize(items_.size());
  for (std::uint32_t i = 0; i < items_.size(); ++i) add_part(i);
  add_streams();
  const auto count = static_cast<std::uint32_t>(items_.size());
  for (std::uint32_t first = 0; first < count;) {
    std::uint32_t last = first;
    while (last < count && items_[last].file == items_[first].file) ++last;
    if (auto good = place(first, last); !good) return good;
    settle(first, last);
    if (auto good = read_staged(first, last, culprit); !good) return good;
    first = last;
  }
  if (auto good = place_filled(); !good) return good;
  made_.arena_bytes =
      round_up(std::max<std::uint64_t>(made_.arena_bytes, 1), std::uint64_t{block_bytes});
  if (too_large()) {
    return fault{errc::memory_exceeded, "",
                 "the tensors need " + grouped(made_.arena_bytes) + " bytes, the limit is " +
                     grouped(within_.arena_bytes_max)};
  }
  finish();
  return {};
}

result<void> planner::place_blocks() {
  for (const arena_block& block : what_.blocks) {
    auto good =
        reserve(block.bytes, std::max<std::uint64_t>(block.alignment, rules_.tensor_alignment));
    if (!good) return good;
    made_.blocks.push_back(reserved_at_);
  }
  for (stored_item& item : items_) {
    if (item.block != no_index) item.destination_offset += made_.blocks[item.block];
  }
  return {};
}

void planner::add_part(std::uint32_t index) {
  const stored_item& item = items_[index];
  made_.parts[index].tensor = item.tensor;
  placement& of = made_.tensors[item.tensor];
  if (of.parts_end == 0) of.parts_begin = index;
  of.parts_end = index + 1;
}

// Streams in the order in which the files have them, and what becomes of their bytes.
void planner::add_streams() {
  stream_op_.resize(what_.streams.size(), no_index);
  for (std::uint32_t i = 0; i < items_.size(); ++i) {
    const stored_item& item = items_[i];
    if (item.stream == no_index) continue;
    std::uint32_t& op = stream_op_[item.stream];
    if (op == no_index) {
      op = static_cast<std::uint32_t>(made_.streams.size());
      made_.streams.push_back({item.stream, 0, 0, 0, 0, 0});
    }
    made_.parts[i].stream = op;
    stream_op& of = made_.streams[op];
    of.bytes_needed = std::max(of.bytes_needed, item.stream_offset + item.stream_bytes);
  }
  read_.resize(made_.streams.size());
}

// Gives each tensor of one file its place in the arena, and makes the straight reads.
result<void> planner::place(std::uint32_t first, std::uint32_t last) {
  for (std::uint32_t i = first; i < last; ++i) {
    stored_item& item = items_[i];
    if (!item.own_place || !rules_.straight || !item.only || item.same_as != no_index) continue;
    item.straight = item.stream == no_index && item.map == no_index && !item.as.needed() &&
                    item.begin % alignment_of(item) == 0;
  }
  for (std::uint32_t i = first; i < last;) {
    const stored_item& item = items_[i];
    if (!item.straight || !item.own_place) {
      read_body(i);
      ++i;
      continue;
    }
    // A run: straight tensors that are near enough to be read in one go.
    std::uint64_t run_end = item.end;
    std::uint32_t run_last = i + 1;
    for (std::uint32_t next = run_last; next < last; ++next) {
      const stored_item& more = items_[next];
      if (!more.straight || !more.own_place) continue;
      if (more.begin > run_end && more.begin - run_end >= read_through_bytes) break;
      run_end = std::max(run_end, more.end);
      run_last = next + 1;
    }
    if (auto good = place_run(i, run_last, run_end); !good) return good;
    for (; i < run_last; ++i) read_body(i);
  }
  // Those that are staged as they are stand one after another: between two of them is padding only.
  for (std::uint32_t i = first; i < last; ++i) {
    if (items_[i].only && items_[i].map == no_index && items_[i].stream == no_index) {
      if (auto good = reserve_for(items_[i]); !good) return good;
    }
  }
  for (std::uint32_t i = first; i < last; ++i) {
    if (auto good = reserve_for(items_[i]); !good) return good;
  }
  return {};
}

result<void> planner::reserve_for(const stored_item& item) {
  if (!item.own_place || item.same_as != no_index || placed_[item.tensor]) return {};
  placement& at = made_.tensors[item.tensor];
  if (auto good = reserve(at.bytes, alignment_of(item)); !good) return good;
  at.destination_offset = reserved_at_;
  placed_[item.tensor] = true;
  return {};
}

// Tensors of which nothing is stored.
result<void> planner::place_filled() {
  for (const fill_op& fill : made_.fills) {
    const tensor_form& form = *what_.tensors[fill.tensor].form;
    stored_item item;
    item.tensor = fill.tensor;
    item.own_place = form.destination == 0 && form.block == tensor_form::no_block;
    if (auto good = reserve_for(item); !good) return good;
  }
  return {};
}

result<void> planner::place_run(std::uint32_t first, std::uint32_t last, std::uint64_t run_end) {
  const std::uint64_t begin = round_down(items_[first].begin, std::uint64_t{block_bytes});
  const std::uint64_t bytes = round_up(run_end, std::uint64_t{block_bytes}) - begin;
  auto good = reserve(bytes, bytes >= rules_.aligned_run_bytes ? within_.slot_bytes : block_bytes);
  if (!good) return good;
  for (std::uint32_t i = first; i < last; ++i) {
    const stored_item& item = items_[i];
    if (!item.straight || !item.own_place) continue;
    made_.tensors[item.tensor].destination_offset = reserved_at_ + (item.begin - begin);
    placed_[item.tensor] = true;
  }
  if (!too_large()) read_run(first, last, run_end);
  return {};
}

read_op straight_read(std::uint32_t file, std::uint64_t file_offset, std::uint32_t destination,
                      std::uint64_t destination_offset, std::uint64_t needed, const plan& made) {
  const auto copies = static_cast<std::uint32_t>(made.copies.size());
  const auto feeds = static_cast<std::uint32_t>(made.feeds.size());
  return {
      .file_offset = file_offset,
      .destination_offset = destination_offset,
      .destination = destination,
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

// Example, with slots of 2 MiB: a run of 5 MiB from file offset 8,192 that was given the arena from
// 1 MiB on becomes reads of 1, 2 and 2 MiB, which end where the arena reaches 2, 4 and 6 MiB.
void planner::read_run(std::uint32_t first, std::uint32_t last, std::uint64_t run_end) {
  const std::uint64_t begin = round_down(items_[first].begin, std::uint64_t{block_bytes});
  const auto first_read = static_cast<std::uint32_t>(made_.reads.size());
  for (std::uint64_t at = begin; at < run_end;) {
    const std::uint64_t arena_at = reserved_at_ + (at - begin);
    const std::uint64_t room =
        round_down(arena_at, within_.slot_bytes) + within_.slot_bytes - arena_at;
    const std::uint64_t needed = std::min(room, run_end - at);
    made_.reads.push_back(straight_read(items_[first].file, at, 0, arena_at, needed, made_));
    at += needed;
  }
  const auto read_of = [&](std::uint64_t at) {
    const std::uint64_t slots =
        (reserved_at_ + (at - begin)) / within_.slot_bytes - reserved_at_ / within_.slot_bytes;
    return first_read + static_cast<std::uint32_t>(slots);
  };
  for (std::uint32_t i = first; i < last; ++i) {
    if (!items_[i].straight || !items_[i].own_place) continue;
    made_.parts[i].straight = true;
    made_.parts[i].reads_begin = read_of(items_[i].begin);
    made_.parts[i].reads_end = read_of(items_[i].end - 1) + 1;
  }
}

// The whole blocks of a tensor that has its place already.
void planner::read_body(std::uint32_t index) {
  const stored_item& item = items_[index];
  if (!item.straight || item.own_place || too_large()) return;
  made_.parts[index].straight = true;
  made_.parts[index].reads_begin = static_cast<std::uint32_t>(made_.reads.size());
  for (std::uint64_t at = item.begin; at < item.end;) {
    const std::uint64_t needed = std::min(within_.slot_bytes, item.end - at);
    made_.reads.push_back(straight_read(item.file, at, item.destination,
                                        item.destination_offset + (at - item.begin), needed,
                                        made_));
    at += needed;
  }
  made_.parts[index].reads_end = static_cast<std::uint32_t>(made_.reads.size());
}

// All tensors of the file have their places.
void planner::settle(std::uint32_t first, std::uint32_t last) {
  for (std::uint32_t i = first; i < last; ++i) {
    stored_item& item = items_[i];
    if (!item.own_place) continue;
    placement& at = made_.tensors[item.tensor];
    if (item.same_as != no_index) {
      at.destination_offset = made_.tensors[items_[item.same_as].tensor].destination_offset;
    }
    item.destination_offset += at.destination_offset;
  }
}

result<void> planner::read_staged(std::uint32_t first, std::uint32_t last, std::uint32_t* culprit) {
  if (too_large()) return {};
  std::vector<segment> segments;
  std::vector<std::uint32_t> chains;
  for (std::uint32_t i = first; i < last; ++i) {
    const stored_item& item = items_[i];
    if (item.straight || item.same_as != no_index || item.begin == item.end) continue;
    if (item.stream != no_index) {
      const std::uint32_t op = stream_op_[item.stream];
      if (read_[op]) continue;
      read_[op] = true;
      if (item.begin % block_bytes + (item.end - item.begin) > within_.slot_bytes) {
        chains.push_back(op);
      } else {
        segments.push_back({item.begin, item.end, op, true});
      }
    } else if (item.hole_end > 0) {
      if (item.begin < item.hole_begin) segments.push_back({item.begin, item.hole_begin, i, false});
      if (item.hole_end < item.end) segments.push_back({item.hole_end, item.end, i, false});
    } else if (item.map == no_index) {
      segments.push_back({item.begin, item.end, i, false});
    } else {
      const std::vector<range> rows = rows_of(made_.maps[item.map], rows_max - rows_);
      if (rows.empty()) {
        if (culprit) *culprit = item.tensor;
        return fault{errc::memory_exceeded, "",
                     "the slice lies in more than " + grouped(rows_max) + " rows, each a read"};
      }
      rows_ += rows.size() - 1;
      for (const range& row : rows) {
        segments.push_back({item.begin + row.begin, item.begin + row.end, i, false});
      }
    }
  }
  const auto before = [](const segment& a, const segment& b) { return a.begin < b.begin; };
  if (!std::is_sorted(segments.begin(), segments.end(), before)) {
    std::sort(segments.begin(), segments.end(), before);
  }
  if (!segments.empty()) {
    stage(items_[first].file, segments, items_, within_.slot_bytes, made_);
  }
  for (const std::uint32_t op : chains) {
    stage_chain(op, what_.streams[made_.streams[op].stream], within_.slot_bytes, made_);
  }
  return {};
}

void planner::finish() {
  for (std::uint32_t i = 0; i < items_.size(); ++i) {
    const stored_item& item = items_[i];
    part& one = made_.parts[i];
    if (item.same_as != no_index) {
      const part& same = made_.parts[item.same_as];
      one.reads_begin = same.reads_begin;
      one.reads_end = same.reads_end;
      one.straight = same.straight;
    }
    if (item.stream == no_index) continue;
    one.reads_begin = made_.streams[one.stream].reads_begin;
    one.reads_end = made_.streams[one.stream].reads_end;
    if (item.same_as != no_index) continue;
    made_.outputs.push_back({item.stream_offset, item.stream_bytes, item.destination_offset,
                             item.destination, item.tensor, item.map, item.as, one.stream});
  }
  for (fill_op& fill : made_.fills) {
    const tensor_form& form = *what_.tensors[fill.tensor].form;
    if (form.block != tensor_form::no_block) {
      fill.destination_offset += made_.blocks[form.block];
    } else if (form.destination == 0) {
      fill.destination_offset += made_.tensors[fill.tensor].destination_offset;
    }
  }
  for (std::size_t t = 0; t < what_.tensors.size(); ++t) {
    const tensor_form* form = what_.tensors[t].form;
    if (form && form->block != tensor_form::no_block) {
      made_.tensors[t].destination_offset += made_.blocks[form->block];
    }
  }
  complete(made_, within_.streams_at_once);
}

}  // namespace

result<plan> make_plan(const plan_input& what, const layout_rules& rules, const plan_limits& within,
                       std::uint32_t* culprit) {
  assert(within.slot_bytes >= block_bytes && (within.slot_bytes & (within.slot_bytes - 1)) == 0);
  auto from = resolve(what, culprit);
  if (!from) return from.error();
  planner work(what, std::move(*from), rules, within);
  if (auto good = work.run(culprit); !good) return good.error();
  return work.take();
}

}  // namespace ringload::inline v0
