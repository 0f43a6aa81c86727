// SPDX-License-Identifier: Apache-2.0
#pragma once

// Random plan inputs: tensors of any form, boxes, and destinations.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <random>
#include <vector>

#include "base/checked.hpp"
#include "plan/chance.hpp"
#include "plan/planned.hpp"

namespace ringload::testing::random_plans {

using bytes = std::vector<std::byte>;
using numbers = std::vector<std::uint64_t>;

// The last of the noise_files has the bytes of streams in memory.
inline constexpr std::uint32_t memory_file = 7;

// The memory to which the spans of a stored_box and a tensor_form refer.
struct own_piece {
  numbers origin, extent, stride;
};

struct setting {
  std::vector<wanted_tensor> tensors;
  std::vector<wanted_stream> streams;
  std::vector<caller_memory> destinations;
  std::vector<arena_block> blocks;
  std::uint32_t arenas = 1;
  mapping_request views = mapping_request::none;
  bool views_present = false;
  std::vector<placement_rules> rules = {{}};  // Indexed by arena, or one element for all.
  plan_limits within = {0};
  std::uint64_t file_end[3] = {};

  std::deque<tensor_form> forms;
  std::deque<numbers> shapes;
  std::deque<std::vector<range>> boxes;
  std::deque<std::vector<std::int64_t>> strides;
  std::deque<own_piece> own_pieces;
  std::deque<std::vector<stored_box>> pieces;
  std::deque<bytes> fills;

  plan_input input() const {
    return {tensors, streams, destinations, blocks, arenas, views, views_present};
  }
};

inline std::uint64_t product(const numbers& of) {
  std::uint64_t made = 1;
  for (const std::uint64_t n : of) made *= n;
  return made;
}

inline numbers box_counts(const tensor_form& form) {
  numbers counts(form.shape.begin(), form.shape.end());
  for (std::size_t d = 0; d < form.box.size(); ++d) counts[d] = form.box[d].count();
  return counts;
}

// Reserves a range of a file.
inline std::uint64_t taken(setting& s, chance& by, std::uint32_t file, std::uint64_t count,
                           std::uint64_t alignment) {
  std::uint64_t at = s.file_end[file];
  if (by.one_in(3)) at += by.number(1, by.one_in(4) ? 70'000 : 5'000);
  if (!by.one_in(4)) at = round_up(at, alignment);
  // In a large file, reuses a range of earlier tensors.
  if (at > 8 * mib) at = by.number(0, mib);
  s.file_end[file] = std::max(s.file_end[file], at + count);
  return at;
}

inline void add_strided_piece(setting& s, chance& by, tensor_form& form, std::uint32_t element) {
  const numbers shape(form.shape.begin(), form.shape.end());
  own_piece& own = s.own_pieces.emplace_back();
  own.origin.assign(shape.size(), 0);
  own.extent = shape;
  own.stride.assign(shape.size(), 0);
  std::vector<std::size_t> order(shape.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), by.engine());
  std::uint64_t stride = element;
  for (const std::size_t d : order) {
    if (by.one_in(6)) stride += by.one_in(2) ? element : by.number(1, 70'000);
    own.stride[d] = by.one_in(8) ? 0 : by.one_in(10) ? by.number(1, 20) : stride;
    own.stride[d] = std::min(own.stride[d], 2 * mib / std::max<std::uint64_t>(1, shape[d]));
    stride *= std::max<std::uint64_t>(1, shape[d]);
  }
  std::uint64_t span = element;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] > 0) span += (shape[d] - 1) * own.stride[d];
  }
  const std::uint64_t skipped = by.number(0, 30);
  const auto file = static_cast<std::uint32_t>(by.number(0, 2));
  s.streams.push_back({wanted_stream::kind::raw, file,
                       taken(s, by, file, skipped + span, element % 2 == 0 ? 8 : 1), skipped + span,
                       skipped + span});
  form.has_pieces = true;
  s.pieces.push_back({{static_cast<std::uint32_t>(s.streams.size() - 1), skipped, own.origin,
                       own.extent, own.stride}});
  form.pieces = s.pieces.back();
}

// A grid of boxes with separate streams. Some boxes may be missing.
inline void add_grid(setting& s, chance& by, tensor_form& form, std::uint32_t element) {
  const numbers shape(form.shape.begin(), form.shape.end());
  numbers chunk;
  for (const std::uint64_t n : shape) {
    chunk.push_back(by.number(std::max<std::uint64_t>(1, n / 4), std::max<std::uint64_t>(1, n)));
  }
  std::vector<stored_box>& all = s.pieces.emplace_back();
  numbers at(shape.size(), 0);
  form.has_pieces = true;
  const bool holes = by.one_in(3);
  const auto file = static_cast<std::uint32_t>(by.number(0, 2));
  for (bool more = product(shape) > 0; more;) {
    if (!holes || !by.one_in(3)) {
      own_piece& own = s.own_pieces.emplace_back();
      own.origin = at;
      own.stride.assign(shape.size(), 0);
      std::uint64_t stride = element;
      for (std::size_t d = shape.size(); d > 0; --d) {
        own.stride[d - 1] = stride;
        stride *= chunk[d - 1];
        own.extent.insert(own.extent.begin(), std::min(chunk[d - 1], shape[d - 1] - at[d - 1]));
      }
      wanted_stream stream = {wanted_stream::kind::decoded, file, 0, stride, stride};
      if (by.one_in(10)) {
        stream.storage = wanted_stream::kind::in_memory;
        stream.offset = by.number(0, 1000);
      } else {
        stream.offset = taken(s, by, file, stride, 1);
        if (by.one_in(5)) stream.storage = wanted_stream::kind::raw;
      }
      s.streams.push_back(stream);
      all.push_back({static_cast<std::uint32_t>(s.streams.size() - 1), 0, own.origin, own.extent,
                     own.stride});
    }
    more = false;
    for (std::size_t d = shape.size(); d > 0 && !more; --d) {
      at[d - 1] += chunk[d - 1];
      more = at[d - 1] < shape[d - 1];
      if (!more) at[d - 1] = 0;
    }
  }
  if (by.one_in(2)) {
    form.fill = s.fills.emplace_back(element, std::byte{0x3C});
  }
  form.pieces = all;
}

inline void choose_box(setting& s, chance& by, tensor_form& form) {
  if (by.one_in(3)) return;
  std::vector<range>& box = s.boxes.emplace_back();
  const bool outer_only = by.one_in(2);
  for (std::size_t d = 0; d < form.shape.size(); ++d) {
    const std::uint64_t size = form.shape[d];
    if (by.one_in(3) || (outer_only && d > 0)) {
      box.push_back({0, size});
      continue;
    }
    const std::uint64_t begin = by.number(0, size);
    box.push_back({begin, by.number(begin, size)});
  }
  form.box = box;
}

inline void choose_destination(setting& s, chance& by, tensor_form& form, std::uint32_t landed) {
  if (by.one_in(2)) return;
  const numbers counts = box_counts(form);
  std::uint64_t most = landed;
  if (form.element_bits % 8 != 0) {
    most = product(counts) * form.element_bits / 8;
  } else if (by.one_in(2)) {
    // Destination strides: the dimensions in any order, with gaps.
    std::vector<std::int64_t>& strides = s.strides.emplace_back(counts.size());
    std::vector<std::size_t> order(counts.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    if (by.one_in(2))
      std::shuffle(order.begin(), order.end(), by.engine());
    else
      std::reverse(order.begin(), order.end());
    for (const std::size_t d : order) {
      if (by.one_in(3)) most += by.number(1, 20);
      strides[d] = static_cast<std::int64_t>(most);
      most *= std::max<std::uint64_t>(1, counts[d]);
    }
    form.destination_strides = strides;
  } else {
    most *= product(counts);
  }
  form.destination_offset = by.number(0, 100);
  const std::uint64_t room = form.destination_offset + most + by.number(0, 100);
  if (by.one_in(4)) {
    s.blocks.push_back({room, static_cast<std::uint32_t>(by.one_of({1, 8, 64})),
                        static_cast<std::uint32_t>(by.number(0, s.arenas - 1))});
    form.block = static_cast<std::uint32_t>(s.blocks.size() - 1);
  } else {
    // Often an address that allows direct reads.
    const std::uint64_t address =
        by.number(1, 100) * block_bytes + (by.one_in(2) ? by.number(0, 5000) : 0);
    s.destinations.push_back({address, room, !by.one_in(4)});
    form.destination = static_cast<std::uint32_t>(s.destinations.size());
    // As in a checkpoint with aligned tensors.
    if (by.one_in(2)) form.destination_offset = 0;
  }
}

// The last tensor is also placed in other arenas.
inline void replicate(setting& s, chance& by) {
  const std::uint32_t first = s.tensors.back().arena;
  s.tensors.back().replicated = true;
  for (std::uint32_t a = 0; a < s.arenas; ++a) {
    if (a == first || by.one_in(4)) continue;
    s.tensors.push_back(s.tensors.back());
    s.tensors.back().arena = a;
  }
}

inline void add_tensor(setting& s, chance& by) {
  constexpr conversion kinds[] = {{float_type::f32, float_type::bf16},
                                  {float_type::bf16, float_type::f32},
                                  {float_type::f8_e4m3fn, float_type::f16}};
  tensor_form& form = s.forms.emplace_back();
  wanted_tensor tensor = {static_cast<std::uint32_t>(by.number(0, 2)), 1, 0, 0};
  std::uint32_t element = by.one_of<std::uint32_t>({1, 2, 4, 8, 16});
  if (by.one_in(4)) {
    tensor.cast = by.one_of(kinds);
    element = tensor.cast.from_bytes();
  }
  form.element_bits = element * 8;
  tensor.alignment =
      std::min<std::uint32_t>(8, tensor.cast.needed() ? tensor.cast.to_bytes() : element);

  numbers& shape = s.shapes.emplace_back();
  for (std::uint64_t rank = by.number(0, 4); rank > 0; --rank) {
    shape.push_back(by.one_in(30) ? 0 : by.number(1, shape.empty() ? 60 : 12));
  }
  if (by.one_in(4)) shape = {by.number(1, 12), by.number(1000, 40'000)};
  form.shape = shape;
  if (element > 1 && by.one_in(5))
    form.swap_bytes = static_cast<std::uint8_t>(std::min(8U, element));
  if (tensor.cast.needed() && form.swap_bytes > element) form.swap_bytes = 0;

  tensor.bytes = product(shape) * element;
  const std::uint64_t kind = by.number(0, 5);
  if (kind == 0) {
    add_strided_piece(s, by, form, element);
  } else if (kind == 1) {
    add_grid(s, by, form, element);
  } else if (kind == 2 && !shape.empty() && !tensor.cast.needed()) {
    // Two elements in one byte.
    form.element_bits = 4;
    form.swap_bytes = 0;
    tensor.alignment = 1;
    shape.back() = round_up(shape.back(), std::uint64_t{2});
    tensor.bytes = product(shape) / 2;
    tensor.offset = taken(s, by, tensor.file, tensor.bytes, 1);
  } else {
    tensor.offset = taken(s, by, tensor.file, tensor.bytes, element);
  }
  if (form.element_bits == 4) {
    // An even range of the last dimension, so that it has whole bytes.
    choose_box(s, by, form);
    if (!form.box.empty()) {
      range& last = s.boxes.back().back();
      last.begin = round_down(last.begin, std::uint64_t{2});
      last.end = round_up(last.end, std::uint64_t{2});
    }
  } else {
    choose_box(s, by, form);
  }
  choose_destination(s, by, form, tensor.cast.needed() ? tensor.cast.to_bytes() : element);
  tensor.form = &form;
  tensor.arena = static_cast<std::uint32_t>(by.number(0, s.arenas - 1));
  s.tensors.push_back(tensor);
  if (by.one_in(12))
    s.tensors.push_back({tensor.file,
                         tensor.alignment,
                         tensor.offset,
                         form.has_pieces ? 0 : tensor.bytes,
                         {},
                         nullptr,
                         tensor.arena});
  // The same tensor again. In the same arena, both may share their memory.
  if (by.one_in(10) && form.destination == 0 && form.block == tensor_form::no_block) {
    s.tensors.push_back(tensor);
  }
  if (s.arenas > 1 && by.one_in(3) && form.destination == 0 &&
      form.block == tensor_form::no_block) {
    replicate(s, by);
  }
}

inline setting random_setting(unsigned seed) {
  chance by(seed);
  setting s;
  s.within.slot_bytes = by.one_of<std::uint64_t>({2 * block_bytes, 16 * kib, 64 * kib, 256 * kib});
  s.within.direct_alignment = by.one_of<std::uint64_t>({1, 4, 512, block_bytes});
  s.within.streams_at_once = static_cast<std::uint32_t>(by.number(1, 4));
  if (by.one_in(2)) s.arenas = static_cast<std::uint32_t>(by.number(2, 4));
  s.rules.resize(by.one_in(2) ? s.arenas : 1);
  for (placement_rules& each : s.rules) {
    each.unstaged = by.one_in(2);
    each.tensor_alignment = by.one_of<std::uint64_t>({1, 64, 256});
  }
  if (by.one_in(3)) s.views = mapping_request::possible;
  s.views_present = by.one_in(2);
  for (std::uint64_t left = by.number(1, 8); left > 0; --left) add_tensor(s, by);
  return s;
}

}  // namespace ringload::testing::random_plans
