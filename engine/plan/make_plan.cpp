// SPDX-License-Identifier: Apache-2.0

// The second half of planning, after split_pieces.cpp. Chooses a place in an arena for each tensor
// that has no place yet, and adds the reads. plan.hpp explains the terms.

#include "plan/make_plan.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/checked.hpp"
#include "plan/arena_layout.hpp"
#include "plan/link_and_order.hpp"
#include "plan/mappable.hpp"
#include "plan/merge_fused.hpp"
#include "plan/segments.hpp"
#include "plan/sort_and_merge.hpp"
#include "plan/split_pieces.hpp"
#include "plan/staged_reads.hpp"
#include "plan/unstaged_reads.hpp"

namespace ringload::inline v0 {

namespace {

// A tensor that is not aligned in its file is shifted (see shift_of()) by at least half a block of
// 4,096 bytes. If source and destination differ by only a few bytes modulo 4,096, copies from the
// page cache are slower. The reason is that the processor confuses the addresses (4K aliasing).
constexpr std::uint64_t shift_min = block_bytes / 2;

fault refuse_mapping(std::uint32_t tensor, std::string reason, std::uint32_t* failed_tensor) {
  if (failed_tensor) *failed_tensor = tensor;
  return {errc::not_mappable, "", std::move(reason)};
}

class planner {
 public:
  planner(const plan_input& input, split_tensors&& pieces, std::span<const placement_rules> rules,
          const plan_limits& limits)
      : input_(input),
        rules_(rules),
        limits_(limits),
        items_(std::move(pieces.items)),
        arenas_(input) {
    plan_.maps = std::move(pieces.maps);
    plan_.fills = std::move(pieces.fills);
    plan_.fill_values = std::move(pieces.fill_values);
    plan_.tensors = std::move(pieces.tensors);
    plan_.bytes_wanted = pieces.bytes_wanted;
    placed_.resize(plan_.tensors.size());
  }

  result<void> run(std::uint32_t* failed_tensor);
  plan&& take() { return std::move(plan_); }

 private:
  // If the arenas are too large, the planner adds no more reads, and only adds up the sizes for the
  // error text. Otherwise the list of reads could exhaust the memory, because a sparse file can
  // have tensors of any size.
  bool too_large() const { return arenas_.bytes() > limits_.arena_bytes_max; }
  std::uint64_t alignment_of(const stored_item& i) const {
    return std::max<std::uint64_t>(input_.tensors[i.tensor].alignment,
                                   rules_for(i.destination).tensor_alignment);
  }

  const placement_rules& rules_for(std::uint32_t destination) const {
    return rules_of(destination, input_, rules_);
  }

  result<void> place_blocks();
  std::uint32_t shift_of(const stored_item& item) const;
  void add_streams();
  result<void> find_unstaged(std::uint32_t first, std::uint32_t last, std::uint32_t* failed_tensor);
  result<void> place_tensors(std::uint32_t first, std::uint32_t last);
  result<void> place_run(const unstaged_run& run);
  void read_body(std::uint32_t index);
  result<void> reserve_for(const stored_item& item);
  result<void> place_filled(std::uint32_t* failed_tensor);
  void resolve_destinations(std::uint32_t first, std::uint32_t last);
  result<void> read_staged(std::uint32_t first, std::uint32_t last, std::uint32_t* failed_tensor);
  void add_part(std::uint32_t index);
  void finish();

  const plan_input& input_;
  const std::span<const placement_rules> rules_;
  const plan_limits& limits_;
  std::vector<stored_item> items_;  // Sorted by file offset. See sort_and_merge().
  // Indexed by tensor. True if the place of the tensor in an arena is known.
  std::vector<bool> placed_;
  arena_layout arenas_;
  plan plan_;
  // Number of rows of slices that may still get their own reads: see segments_of().
  std::uint64_t rows_left_ = rows_max;
  std::uint64_t chain_reads_ = 0;  // Number of full reads of all chains so far.
};

result<void> planner::run(std::uint32_t* failed_tensor) {
  if (auto status = place_blocks(); !status) return status;
  sort_and_merge(items_, input_, rules_, limits_);
  plan_.parts.resize(items_.size());
  for (std::uint32_t i = 0; i < items_.size(); ++i) add_part(i);
  add_streams();
  const auto count = static_cast<std::uint32_t>(items_.size());
  for (std::uint32_t first = 0; first < count;) {
    std::uint32_t last = first;
    while (last < count && items_[last].file == items_[first].file) ++last;
    if (auto status = find_unstaged(first, last, failed_tensor); !status) return status;
    if (auto status = place_tensors(first, last); !status) return status;
    resolve_destinations(first, last);
    if (auto status = read_staged(first, last, failed_tensor); !status) return status;
    first = last;
  }
  if (auto status = place_filled(failed_tensor); !status) return status;
  for (std::size_t t = 0; t < plan_.tensors.size(); ++t) {
    const placement& place = plan_.tensors[t];
    if (place.bytes != 0 || input_.is_caller_memory(place.destination)) continue;
    arenas_.use(place.destination,
                std::max<std::uint64_t>(input_.tensors[t].alignment,
                                        rules_for(place.destination).tensor_alignment));
  }
  plan_.arenas = arenas_.finish();
  plan_.arena_bytes = arenas_.bytes();
  if (too_large() && !plan_.tensors.empty()) {
    return fault{errc::memory_exceeded, "",
                 "the tensors need " + grouped(plan_.arena_bytes) + " bytes, " +
                     limits_.arena_bytes_max_name + " is " + grouped(limits_.arena_bytes_max)};
  }
  finish();
  return {};
}

result<void> planner::place_blocks() {
  for (const arena_block& block : input_.blocks) {
    const std::uint32_t destination = input_.destination_of(block.arena);
    const std::uint64_t alignment =
        std::max<std::uint64_t>(block.alignment, rules_for(destination).tensor_alignment);
    auto offset = arenas_.reserve(destination, block.bytes, alignment);
    if (!offset) return offset.error();
    plan_.blocks.push_back(offset->offset);
  }
  for (stored_item& item : items_) {
    if (item.block != no_index) item.destination_offset += plan_.blocks[item.block];
  }
  return {};
}

// Returns the number of bytes by which a tensor is shifted so that its elements are aligned, or 0.
// For example, many tensors in NumPy archives need a shift. A shift is about 2 KiB. A tensor is not
// shifted if the tensor is too short for unstaged reads or is replicated. No tensor is shifted if
// tensors are mapped, or if direct reads need an alignment.
std::uint32_t planner::shift_of(const stored_item& item) const {
  const std::uint64_t alignment = alignment_of(item);
  const bool can_shift = limits_.direct_alignment == 1 && input_.mapping == mapping_request::none;
  if (!can_shift || input_.tensors[item.tensor].replicated) return 0;
  const std::uint64_t first_block = round_up(item.begin, std::uint64_t{block_bytes});
  const std::uint64_t end = round_down(item.end, std::uint64_t{block_bytes});
  if (first_block + unstaged_bytes_min > end) return 0;
  if (item.begin % alignment == 0) return 0;
  return static_cast<std::uint32_t>(round_up(item.begin + shift_min, alignment) - item.begin);
}

void planner::add_part(std::uint32_t index) {
  const stored_item& item = items_[index];
  plan_.parts[index].tensor = item.tensor;
  placement& place = plan_.tensors[item.tensor];
  if (place.parts_end == 0) place.parts_begin = index;
  place.parts_end = index + 1;
}

// Numbers the streams in file order.
void planner::add_streams() {
  std::vector<std::uint32_t> op_of(input_.streams.size(), no_index);
  for (std::uint32_t i = 0; i < items_.size(); ++i) {
    stored_item& item = items_[i];
    if (item.stream == no_index) continue;
    std::uint32_t& op = op_of[item.stream];
    if (op == no_index) {
      item.first_of_stream = true;
      op = static_cast<std::uint32_t>(plan_.streams.size());
      plan_.streams.push_back({item.stream, 0, 0, 0, 0, 0});
    }
    plan_.parts[i].stream = op;
    stream_op& stream = plan_.streams[op];
    stream.bytes_needed = std::max(stream.bytes_needed, item.stream_offset + item.stream_bytes);
  }
}

// Decides which tensors of one file are mapped or read directly into their arena.
result<void> planner::find_unstaged(std::uint32_t first, std::uint32_t last,
                                    std::uint32_t* failed_tensor) {
  for (std::uint32_t i = first; i < last; ++i) {
    stored_item& item = items_[i];
    if (input_.mapping == mapping_request::all) {
      std::string obstacle = obstacle_to_mapping(item, alignment_of(item));
      if (!obstacle.empty()) return refuse_mapping(item.tensor, std::move(obstacle), failed_tensor);
    }
    if (!item.has_own_place || item.same_as != no_index) continue;
    const bool can_be_unstaged =
        rules_for(item.destination).unstaged || input_.mapping != mapping_request::none;
    if (item.replica_of != no_index) {
      // If reads cannot write directly to the arena of a replica, the original and its replicas are
      // copied from a slot.
      if (!can_be_unstaged) items_[item.replica_of].unstaged = false;
      continue;
    }
    if (!can_be_unstaged) continue;
    item.shift = shift_of(item);
    item.unstaged = obstacle_to_mapping(item, alignment_of(item)).empty();
  }
  return {};
}

// Chooses the place of each tensor of one file, and adds the unstaged reads.
result<void> planner::place_tensors(std::uint32_t first, std::uint32_t last) {
  for (std::uint32_t i = first; i < last;) {
    if (!items_[i].unstaged || !items_[i].has_own_place) {
      read_body(i);
      ++i;
      continue;
    }
    const unstaged_run run = run_from(i, last, items_);
    // If a run is short and ends because the next tensor is in another arena, the run is staged
    // together with that tensor.
    const bool unstaged = input_.mapping != mapping_request::none || !run.is_cut ||
                          run.end - items_[i].begin >= unstaged_bytes_min;
    if (unstaged) {
      if (auto status = place_run(run); !status) return status;
    }
    for (; i < run.last; ++i) {
      if (items_[i].has_own_place) items_[i].unstaged = items_[i].unstaged && unstaged;
      read_body(i);
    }
  }
  // Among the staged tensors, the tensors whose bytes are contiguous in the file and not encoded
  // are placed first. These tensors have file order in the arena, with only padding between them.
  for (std::uint32_t i = first; i < last; ++i) {
    if (items_[i].is_only_item && items_[i].map == no_index && items_[i].stream == no_index) {
      if (auto status = reserve_for(items_[i]); !status) return status;
    }
  }
  for (std::uint32_t i = first; i < last; ++i) {
    if (auto status = reserve_for(items_[i]); !status) return status;
  }
  return {};
}

// Adds the unstaged reads of a tensor in caller memory, or of a part of a fused tensor. These reads
// cover the I/O units of 4 KiB that are completely inside the tensor.
void planner::read_body(std::uint32_t index) {
  const stored_item& item = items_[index];
  if (!item.unstaged || item.has_own_place || too_large()) return;
  if (item.block != no_index) arenas_.align_to_blocks(item.destination);
  add_unstaged_reads(index, item, limits_.slot_bytes, plan_);
}

result<void> planner::reserve_for(const stored_item& item) {
  if (!item.has_own_place || item.same_as != no_index || placed_[item.tensor]) return {};
  placement& place = plan_.tensors[item.tensor];
  auto reserved = arenas_.reserve(place.destination, place.bytes, alignment_of(item));
  if (!reserved) return reserved.error();
  place.destination_offset = reserved->offset;
  placed_[item.tensor] = true;
  return {};
}

// Reserves arena memory for tensors without stored bytes. Other tensors with a fill_op already have
// a place.
result<void> planner::place_filled(std::uint32_t* failed_tensor) {
  for (const fill_op& fill : plan_.fills) {
    if (input_.mapping == mapping_request::all) {
      return refuse_mapping(fill.tensor, "only a part of the tensor is stored in the file",
                            failed_tensor);
    }
    const tensor_form& form = *input_.tensors[fill.tensor].form;
    stored_item item;
    item.tensor = fill.tensor;
    item.destination = plan_.tensors[fill.tensor].destination;
    item.has_own_place = form.destination == 0 && form.block == tensor_form::no_block;
    if (auto status = reserve_for(item); !status) return status;
  }
  return {};
}

result<void> planner::place_run(const unstaged_run& run) {
  const stored_item& head = items_[run.first];
  const std::uint64_t begin = round_down(head.begin, std::uint64_t{block_bytes});
  const bool mapped = input_.mapping != mapping_request::none;
  arena_layout::position run_place;
  if (mapped) {
    run_place = arenas_.map_range(head.destination, head.file, {begin, run.end});
  } else {
    const std::uint64_t bytes = round_up(run.end, std::uint64_t{block_bytes}) - begin + head.shift;
    auto reserved = arenas_.reserve(
        head.destination, bytes,
        bytes >= rules_for(head.destination).aligned_run_bytes ? limits_.slot_bytes : block_bytes);
    if (!reserved) return reserved.error();
    run_place = *reserved;
  }
  for (std::uint32_t i = run.first; i < run.last; ++i) {
    stored_item& item = items_[i];
    if (!item.unstaged || !item.has_own_place) continue;
    placement& place = plan_.tensors[item.tensor];
    item.destination = place.destination = run_place.destination;
    place.destination_offset = run_place.offset + item.shift + (item.begin - begin);
    placed_[item.tensor] = true;
  }
  for (const std::uint32_t i : replicas_of(run, items_)) {
    if (auto status = reserve_for(items_[i]); !status) return status;
  }
  if (!too_large() && (!mapped || input_.populates_mappings))
    add_run_reads(run, run_place, items_, limits_.slot_bytes, plan_);
  return {};
}

void planner::resolve_destinations(std::uint32_t first, std::uint32_t last) {
  for (std::uint32_t i = first; i < last; ++i) {
    stored_item& item = items_[i];
    if (!item.has_own_place) continue;
    placement& place = plan_.tensors[item.tensor];
    if (item.same_as != no_index) {
      const placement& original = plan_.tensors[items_[item.same_as].tensor];
      place.destination = original.destination;
      place.destination_offset = original.destination_offset;
    }
    item.destination = place.destination;
    item.destination_offset += place.destination_offset;
  }
}

result<void> planner::read_staged(std::uint32_t first, std::uint32_t last,
                                  std::uint32_t* failed_tensor) {
  if (too_large()) return {};
  auto ranges =
      segments_of(first, last, items_, plan_, limits_.slot_bytes, rows_left_, failed_tensor);
  if (!ranges) return ranges.error();
  if (!ranges->segments.empty()) {
    add_staged_reads(items_[first].file, ranges->segments, items_, limits_.slot_bytes, plan_);
  }
  std::uint64_t memory_bytes = arenas_.bytes();
  for (const caller_memory& m : input_.destinations) memory_bytes += m.bytes;
  const std::uint64_t reads_max = chain_reads_max(memory_bytes, limits_.slot_bytes);
  for (const std::uint32_t op : ranges->chains) {
    auto status = add_chain_reads(op, input_.streams[plan_.streams[op].stream], limits_.slot_bytes,
                                  reads_max, chain_reads_, plan_);
    if (status) continue;
    if (failed_tensor) *failed_tensor = std::ranges::find(plan_.parts, op, &part::stream)->tensor;
    return status;
  }
  return {};
}

void planner::finish() {
  for (std::uint32_t i = 0; i < items_.size(); ++i) {
    const stored_item& item = items_[i];
    part& item_part = plan_.parts[i];
    if (const std::uint32_t source = reused_item(item, items_); source != no_index) {
      const part& source_part = plan_.parts[source];
      item_part.reads_begin = source_part.reads_begin;
      item_part.reads_end = source_part.reads_end;
      item_part.unstaged = source_part.unstaged && item.replica_of == no_index;
    }
    if (item.stream == no_index) continue;
    item_part.reads_begin = plan_.streams[item_part.stream].reads_begin;
    item_part.reads_end = plan_.streams[item_part.stream].reads_end;
    if (item.same_as != no_index) continue;
    plan_.outputs.push_back({item.stream_offset, item.stream_bytes, item.destination_offset,
                             item.destination, item.tensor, item.map, item.cast, item_part.stream});
  }
  for (fill_op& fill : plan_.fills) {
    const tensor_form& form = *input_.tensors[fill.tensor].form;
    if (form.block != tensor_form::no_block) {
      fill.destination_offset += plan_.blocks[form.block];
    } else if (form.destination == 0) {
      fill.destination_offset += plan_.tensors[fill.tensor].destination_offset;
    }
  }
  for (std::size_t t = 0; t < input_.tensors.size(); ++t) {
    const tensor_form* form = input_.tensors[t].form;
    if (form && form->block != tensor_form::no_block) {
      plan_.tensors[t].destination_offset += plan_.blocks[form->block];
    }
  }
  link_and_order(plan_, limits_.streams_at_once);
  if (!input_.result_of.empty()) merge_fused(input_, plan_);
}

}  // namespace

result<plan> make_plan(const plan_input& input, std::span<const placement_rules> rules,
                       const plan_limits& limits, std::uint32_t* failed_tensor) {
  assert(limits.slot_bytes >= block_bytes && (limits.slot_bytes & (limits.slot_bytes - 1)) == 0);
  auto pieces = split_pieces(input, failed_tensor);
  if (!pieces) return pieces.error();
  planner work(input, std::move(*pieces), rules, limits);
  if (auto status = work.run(failed_tensor); !status) return status.error();
  return work.take();
}

}  // namespace ringload::inline v0
