// SPDX-License-Identifier: Apache-2.0

// The second half of making a plan: each item gets a place in the arena, if its tensor has none,
// and the reads that bring it.

#include "plan/make_plan.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "core/checked.hpp"
#include "plan/arena_layout.hpp"
#include "plan/arrange.hpp"
#include "plan/order.hpp"
#include "plan/resolve.hpp"
#include "plan/stage.hpp"
#include "plan/straight.hpp"
#include "plan/view.hpp"

namespace ringload::inline v0 {

namespace {

// What is shifted is shifted by at least half a block. Where source and destination differ by a few
// bytes modulo 4,096, copies out of the page cache are slower: loads meet stores that look alike.
constexpr std::uint64_t shift_min = block_bytes / 2;

fault refuse_view(std::uint32_t tensor, std::string why, std::uint32_t* culprit) {
  if (culprit) *culprit = tensor;
  return {errc::not_mappable, "", std::move(why)};
}

class planner {
 public:
  planner(const plan_input& what, resolved&& from, std::span<const layout_rules> rules,
          const plan_limits& within)
      : what_(what), rules_(rules), within_(within), items_(std::move(from.items)), arenas_(what) {
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
  bool too_large() const { return arenas_.bytes() > within_.arena_bytes_max; }
  std::uint64_t alignment_of(const stored_item& i) const {
    return std::max<std::uint64_t>(what_.tensors[i.tensor].alignment,
                                   rules_for(i.destination).tensor_alignment);
  }

  const layout_rules& rules_for(std::uint32_t destination) const {
    return rules_of(destination, what_, rules_);
  }
  // What brings the bytes of another item brings those of this one too.
  std::uint32_t brought_by(const stored_item& item) const {
    if (item.same_as != no_index) return item.same_as;
    const bool copied = item.replica_of != no_index && items_[item.replica_of].straight;
    return copied ? item.replica_of : no_index;
  }

  result<void> place_blocks();
  std::uint32_t shift_of(const stored_item& item) const;
  void add_streams();
  result<void> find_straight(std::uint32_t first, std::uint32_t last, std::uint32_t* culprit);
  result<void> place(std::uint32_t first, std::uint32_t last);
  result<void> place_run(const straight_run& one);
  void read_body(std::uint32_t index);
  result<void> reserve_for(const stored_item& item);
  result<void> place_filled(std::uint32_t* culprit);
  void settle(std::uint32_t first, std::uint32_t last);
  result<void> read_staged(std::uint32_t first, std::uint32_t last, std::uint32_t* culprit);
  void add_part(std::uint32_t index);
  void finish();

  const plan_input& what_;
  const std::span<const layout_rules> rules_;
  const plan_limits& within_;
  std::vector<stored_item> items_;        // From arrange() on by their place in the files.
  std::vector<bool> placed_;              // By tensor: it has a place of its own.
  std::vector<std::uint32_t> stream_op_;  // By wanted stream: which of made_.streams it is.
  std::vector<bool> read_;                // By made_.streams: it is a segment, or a chain.
  arena_layout arenas_;
  plan made_;
  std::uint64_t rows_ = 0;  // Read apart, so far.
};

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
    if (auto good = find_straight(first, last, culprit); !good) return good;
    if (auto good = place(first, last); !good) return good;
    settle(first, last);
    if (auto good = read_staged(first, last, culprit); !good) return good;
    first = last;
  }
  if (auto good = place_filled(culprit); !good) return good;
  for (std::size_t t = 0; t < made_.tensors.size(); ++t) {
    const placement& at = made_.tensors[t];
    if (at.bytes == 0 && !what_.is_callers(at.destination)) arenas_.use(at.destination);
  }
  made_.arenas = arenas_.finish();
  made_.arena_bytes = arenas_.bytes();
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
    const std::uint32_t destination = what_.destination_of(block.arena);
    const std::uint64_t alignment =
        std::max<std::uint64_t>(block.alignment, rules_for(destination).tensor_alignment);
    auto at = arenas_.reserve(destination, block.bytes, alignment);
    if (!at) return at.error();
    made_.blocks.push_back(at->offset);
  }
  for (stored_item& item : items_) {
    if (item.block != no_index) item.destination_offset += made_.blocks[item.block];
  }
  return {};
}

// Where its elements alone keep a tensor from landing as it lies in the file, as those of NumPy's
// archives, it lands about half a block further on. It is long enough to be worth reads of its own.
std::uint32_t planner::shift_of(const stored_item& item) const {
  const std::uint64_t alignment = alignment_of(item);
  const bool lands = within_.direct_alignment == 1 && what_.views == view_wish::none;
  if (!lands || what_.tensors[item.tensor].replicated) return 0;
  const std::uint64_t first_block = round_up(item.begin, std::uint64_t{block_bytes});
  const std::uint64_t end = round_down(item.end, std::uint64_t{block_bytes});
  if (first_block + straight_bytes_min > end) return 0;
  if (item.begin % alignment == 0) return 0;
  return static_cast<std::uint32_t>(round_up(item.begin + shift_min, alignment) - item.begin);
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

// Decides which tensors of one file are read straight into their arena, or are views.
result<void> planner::find_straight(std::uint32_t first, std::uint32_t last,
                                    std::uint32_t* culprit) {
  for (std::uint32_t i = first; i < last; ++i) {
    stored_item& item = items_[i];
    if (what_.views == view_wish::all) {
      std::string obstacle = obstacle_to_view(item, alignment_of(item));
      if (!obstacle.empty()) return refuse_view(item.tensor, std::move(obstacle), culprit);
    }
    if (!item.own_place || item.same_as != no_index) continue;
    const bool can_be = rules_for(item.destination).straight || what_.views != view_wish::none;
    if (item.replica_of != no_index) {
      // A device copies from slots only.
      if (!can_be) items_[item.replica_of].straight = false;
      continue;
    }
    if (!can_be) continue;
    item.shift = shift_of(item);
    item.straight = obstacle_to_view(item, alignment_of(item)).empty();
  }
  return {};
}

// Gives each tensor of one file its place, and makes the straight reads.
result<void> planner::place(std::uint32_t first, std::uint32_t last) {
  for (std::uint32_t i = first; i < last;) {
    if (!items_[i].straight || !items_[i].own_place) {
      read_body(i);
      ++i;
      continue;
    }
    const straight_run one = run_from(i, last, items_);
    // A short one that ends at another arena's tensor shares staged reads with it.
    const bool straight = what_.views != view_wish::none || !one.is_cut ||
                          one.end - items_[i].begin >= straight_bytes_min;
    if (straight) {
      if (auto good = place_run(one); !good) return good;
    }
    for (; i < one.last; ++i) {
      if (items_[i].own_place) items_[i].straight = items_[i].straight && straight;
      read_body(i);
    }
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

// The whole blocks of a tensor that has its place already.
void planner::read_body(std::uint32_t index) {
  const stored_item& item = items_[index];
  if (!item.straight || item.own_place || too_large()) return;
  if (item.block != no_index) arenas_.align_to_blocks(item.destination);
  read_straight(index, item, within_.slot_bytes, made_);
}

result<void> planner::reserve_for(const stored_item& item) {
  if (!item.own_place || item.same_as != no_index || placed_[item.tensor]) return {};
  placement& at = made_.tensors[item.tensor];
  auto found = arenas_.reserve(at.destination, at.bytes, alignment_of(item));
  if (!found) return found.error();
  at.destination_offset = found->offset;
  placed_[item.tensor] = true;
  return {};
}

// Tensors of which nothing is stored.
result<void> planner::place_filled(std::uint32_t* culprit) {
  for (const fill_op& fill : made_.fills) {
    if (what_.views == view_wish::all) {
      return refuse_view(fill.tensor, "not all of it is stored", culprit);
    }
    const tensor_form& form = *what_.tensors[fill.tensor].form;
    stored_item item;
    item.tensor = fill.tensor;
    item.own_place = form.destination == 0 && form.block == tensor_form::no_block;
    if (auto good = reserve_for(item); !good) return good;
  }
  return {};
}

result<void> planner::place_run(const straight_run& one) {
  const stored_item& head = items_[one.first];
  const std::uint64_t begin = round_down(head.begin, std::uint64_t{block_bytes});
  const bool views = what_.views != view_wish::none;
  arena_layout::place at;
  if (views) {
    at = arenas_.view(head.destination, head.file, {begin, one.end});
  } else {
    const std::uint64_t bytes = round_up(one.end, std::uint64_t{block_bytes}) - begin + head.shift;
    auto room = arenas_.reserve(
        head.destination, bytes,
        bytes >= rules_for(head.destination).aligned_run_bytes ? within_.slot_bytes : block_bytes);
    if (!room) return room.error();
    at = *room;
  }
  for (std::uint32_t i = one.first; i < one.last; ++i) {
    stored_item& item = items_[i];
    if (!item.straight || !item.own_place) continue;
    placement& of = made_.tensors[item.tensor];
    item.destination = of.destination = at.destination;
    of.destination_offset = at.offset + item.shift + (item.begin - begin);
    placed_[item.tensor] = true;
  }
  for (const std::uint32_t i : replicas_of(one, items_)) {
    if (auto good = reserve_for(items_[i]); !good) return good;
  }
  if (!too_large() && (!views || what_.views_present))
    read_run(one, at, items_, within_.slot_bytes, made_);
  return {};
}

// All tensors of the file have their places.
void planner::settle(std::uint32_t first, std::uint32_t last) {
  for (std::uint32_t i = first; i < last; ++i) {
    stored_item& item = items_[i];
    if (!item.own_place) continue;
    placement& at = made_.tensors[item.tensor];
    if (item.same_as != no_index) {
      const placement& same = made_.tensors[items_[item.same_as].tensor];
      at.destination = same.destination;
      at.destination_offset = same.destination_offset;
    }
    item.destination = at.destination;
    item.destination_offset += at.destination_offset;
  }
}

result<void> planner::read_staged(std::uint32_t first, std::uint32_t last, std::uint32_t* culprit) {
  if (too_large()) return {};
  std::vector<segment> segments;
  std::vector<std::uint32_t> chains;
  for (std::uint32_t i = first; i < last; ++i) {
    const stored_item& item = items_[i];
    if (item.straight || brought_by(item) != no_index || item.begin == item.end) continue;
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
    if (const std::uint32_t by = brought_by(item); by != no_index) {
      const part& same = made_.parts[by];
      one.reads_begin = same.reads_begin;
      one.reads_end = same.reads_end;
      one.straight = same.straight && item.replica_of == no_index;
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

result<plan> make_plan(const plan_input& what, std::span<const layout_rules> rules,
                       const plan_limits& within, std::uint32_t* culprit) {
  assert(within.slot_bytes >= block_bytes && (within.slot_bytes & (within.slot_bytes - 1)) == 0);
  auto from = resolve(what, culprit);
  if (!from) return from.error();
  planner work(what, std::move(*from), rules, within);
  if (auto good = work.run(culprit); !good) return good.error();
  return work.take();
}

}  // namespace ringload::inline v0
