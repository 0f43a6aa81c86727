// SPDX-License-Identifier: Apache-2.0

#include "plan/split_pieces.hpp"

#include <algorithm>
#include <cassert>

#include "base/checked.hpp"
#include "base/numeric/strided_copy.hpp"
#include "plan/wanted_box.hpp"

namespace ringload::inline v0 {

namespace {

// Maximum number of maps for one box that has more dimensions than one map can have.
constexpr std::uint64_t maps_of_a_box_max = 4096;

fault outside() {
  return {errc::extent_outside_file, "", "its bytes end past the end of the stored bytes"};
}

// The start of one map of a box. A box that has more dimensions than a map can have needs several
// maps: one for each combination of indices in the remaining dimensions.
struct base {
  std::uint64_t source;
  std::uint64_t destination;
};

result<std::vector<base>> bases_of(std::span<const strided_dimension> outer, base first) {
  std::vector<base> bases = {first};
  for (const strided_dimension& d : outer) {
    if (d.count > maps_of_a_box_max / bases.size()) {
      return fault{errc::size_overflow, "", "its strides have too many dimensions to copy"};
    }
    std::vector<base> expanded;
    for (const base& from : bases) {
      for (std::uint64_t i = 0; i < d.count; ++i) {
        expanded.push_back(
            {from.source + i * d.source_stride,
             from.destination + i * static_cast<std::uint64_t>(d.destination_stride)});
      }
    }
    bases = std::move(expanded);
  }
  return bases;
}

// Splits tensors into items. If the elements of a tensor have fewer than 8 bits, the innermost
// dimension counts bytes instead of elements: see wanted_box.
class piece_splitter {
 public:
  piece_splitter(const plan_input& input, split_tensors& output) : input_(input), output_(output) {}

  result<void> add_tensor(std::uint32_t t);

 private:
  result<void> add_form(const tensor_form& form);
  result<void> check_destination(const tensor_form& form);
  result<void> add_contiguous(const tensor_form& form, std::uint64_t bytes);
  result<void> add_row_major(const wanted_stream* source, std::uint32_t stream, std::uint64_t base);
  result<void> add_pieces(const tensor_form& form);
  result<std::uint64_t> add_piece(const stored_box& piece);
  result<void> add_box(std::span<const strided_dimension> box, const wanted_stream* source,
                       std::uint32_t stream, std::uint64_t first, std::uint64_t last,
                       std::uint64_t destination);
  result<void> add_fill(const tensor_form& form);
  void add_item(const strided_map& map, const wanted_stream* source, std::uint32_t stream,
                std::uint64_t first, std::uint64_t destination);
  std::uint32_t index_of(const strided_map& map);

  const plan_input& input_;
  split_tensors& output_;
  const wanted_tensor* tensor_ = nullptr;
  std::uint32_t index_ = 0;
  wanted_box box_;
  stored_item item_;  // The members that are the same for all items of the tensor.
};

result<void> piece_splitter::add_tensor(std::uint32_t t) {
  const wanted_tensor& tensor = input_.tensors[t];
  tensor_ = &tensor;
  index_ = t;
  item_ = {};
  item_.tensor = t;
  item_.file = tensor.file;
  item_.has_own_place = true;
  item_.destination = input_.destination_of(tensor.arena);
  output_.tensors[t].cast = tensor.cast;
  output_.tensors[t].destination = item_.destination;
  if (tensor.form) return add_form(*tensor.form);
  return add_contiguous({}, tensor.bytes);
}

// Adds one contiguous range of bytes, unchanged or converted.
result<void> piece_splitter::add_contiguous(const tensor_form& form, std::uint64_t bytes) {
  const wanted_tensor& tensor = *tensor_;
  placement& place = output_.tensors[index_];
  const conversion target = tensor.cast;
  const auto destination_bytes =
      target.needed() ? checked_multiply(bytes / target.from_bytes(), target.to_bytes())
                      : std::optional(bytes);
  if (!destination_bytes || !checked_add(tensor.offset, bytes)) return bytes_overflow();
  place.bytes = *destination_bytes;
  box_ = {};
  box_.bytes = *destination_bytes;
  if (auto status = check_destination(form); !status) return status;
  if (bytes == 0) return {};
  item_.begin = tensor.offset;
  item_.end = tensor.offset + bytes;
  item_.cast = target;
  item_.destination_offset = form.destination_offset;
  output_.items.push_back(item_);
  output_.bytes_wanted += bytes;
  return {};
}

result<void> piece_splitter::add_form(const tensor_form& form) {
  placement& place = output_.tensors[index_];
  item_.has_own_place = form.destination == 0 && form.block == tensor_form::no_block;
  if (form.destination != 0) item_.destination = form.destination;
  if (form.block != tensor_form::no_block) {
    item_.destination = input_.destination_of(input_.blocks[form.block].arena);
  }
  item_.block = form.block;
  place.destination = item_.destination;
  place.destination_offset = form.destination_offset;
  assert(form.destination == 0 || form.block == tensor_form::no_block);
  assert(!item_.has_own_place ||
         (form.destination_strides.empty() && form.destination_offset == 0));

  const bool plain = !form.has_pieces && form.box.empty() && form.destination_strides.empty() &&
                     form.swap_bytes == 0;
  if (plain) return add_contiguous(form, tensor_->bytes);

  auto box = box_of(form, tensor_->cast);
  if (!box) return box.error();
  box_ = std::move(*box);
  place.bytes = box_.bytes;
  if (auto status = check_destination(form); !status) return status;
  if (box_.elements() == 0) return {};
  return form.has_pieces ? add_pieces(form) : add_row_major(nullptr, no_index, tensor_->offset);
}

result<void> piece_splitter::check_destination(const tensor_form& form) {
  if (item_.has_own_place) return {};
  return check_destination_size(form, box_,
                                form.destination == 0
                                    ? input_.blocks[form.block].bytes
                                    : input_.destinations[form.destination - 1].bytes);
}

// Adds the wanted elements of a tensor that is stored in row-major order. `base` is the offset of
// the tensor's first element in `source`, or in the file if `source` is null.
result<void> piece_splitter::add_row_major(const wanted_stream* source, std::uint32_t stream,
                                           std::uint64_t base) {
  std::vector<strided_dimension> box;
  std::uint64_t skipped = 0;
  std::uint64_t span = box_.element.bytes;
  for (const wanted_dimension& d : box_.dimensions) {
    box.push_back({d.wanted.count(), d.source_stride, d.destination_stride});
    skipped += d.wanted.begin * d.source_stride;
    span += (d.wanted.count() - 1) * d.source_stride;
  }
  const auto first = checked_add(base, skipped);
  const auto last = first ? checked_add(*first, span) : std::nullopt;
  if (!last) return outside();
  return add_box(box, source, stream, *first, *last, tensor_->form->destination_offset);
}

result<void> piece_splitter::add_pieces(const tensor_form& form) {
  if (form.element_bits % 8 != 0) {
    assert(form.pieces.size() == 1);
    const stored_box& whole = form.pieces.front();
    return add_row_major(&input_.streams[whole.stream], whole.stream, whole.first_byte);
  }
  std::uint64_t stored_elements = 0;
  for (const stored_box& piece : form.pieces) {
    auto count = add_piece(piece);
    if (!count) return count.error();
    stored_elements += *count;
  }
  if (stored_elements >= box_.elements()) return {};
  return add_fill(form);
}

// Adds the wanted elements of `piece`. Returns the number of these elements.
result<std::uint64_t> piece_splitter::add_piece(const stored_box& piece) {
  const std::size_t rank = box_.dimensions.size();
  assert(piece.origin.size() == rank && piece.extent.size() == rank &&
         piece.stride_bytes.size() == rank);
  std::vector<strided_dimension> box;
  std::uint64_t first = piece.first_byte;
  std::uint64_t span = box_.element.bytes;
  std::uint64_t destination = tensor_->form->destination_offset;
  std::uint64_t count = 1;
  for (std::size_t d = 0; d < rank; ++d) {
    const wanted_dimension& dim = box_.dimensions[d];
    const auto extent_end = checked_add(piece.origin[d], piece.extent[d]);
    if (!extent_end || *extent_end > dim.size) return outside();
    const range overlap = {std::max(dim.wanted.begin, piece.origin[d]),
                           std::min(dim.wanted.end, *extent_end)};
    if (overlap.begin >= overlap.end) return std::uint64_t{0};
    const std::uint64_t stride = piece.stride_bytes[d];
    const auto skipped = checked_multiply(overlap.begin - piece.origin[d], stride);
    const auto reach = checked_multiply(overlap.count() - 1, stride);
    const auto begin = skipped ? checked_add(first, *skipped) : std::nullopt;
    const auto longer = reach ? checked_add(span, *reach) : std::nullopt;
    if (!begin || !longer) return outside();
    first = *begin;
    span = *longer;
    destination +=
        (overlap.begin - dim.wanted.begin) * static_cast<std::uint64_t>(dim.destination_stride);
    count *= overlap.count();
    box.push_back({overlap.count(), stride, dim.destination_stride});
  }
  const wanted_stream& source = input_.streams[piece.stream];
  const auto end = checked_add(first, span);
  if (!end) return outside();
  auto added = add_box(box, &source, piece.stream, first, *end, destination);
  if (!added) return added.error();
  return count;
}

// The box begins at the offset `first` and ends before the offset `last`. Both are offsets in the
// decoded bytes of `source`, or in the file if `source` is null.
result<void> piece_splitter::add_box(std::span<const strided_dimension> box,
                                     const wanted_stream* source, std::uint32_t stream,
                                     std::uint64_t first, std::uint64_t last,
                                     std::uint64_t destination) {
  const std::uint64_t source_end =
      source ? source->decoded_bytes : tensor_->offset + tensor_->bytes;
  if (last > source_end) return outside();
  std::uint64_t distinct = box_.element.bytes;
  for (const strided_dimension& d : box) distinct *= d.source_stride == 0 ? 1 : d.count;
  output_.bytes_wanted += distinct;

  const coalesced_box split = coalesced(box, box_.element);
  auto bases = bases_of(split.outer, {first, destination});
  if (!bases) return bases.error();
  for (const base& start : *bases)
    add_item(split.map, source, stream, start.source, start.destination);
  return {};
}

void piece_splitter::add_item(const strided_map& map, const wanted_stream* source,
                              std::uint32_t stream, std::uint64_t first,
                              std::uint64_t destination) {
  const std::uint64_t bytes = map.source_bytes();
  const bool side_by_side =
      map.rank == 0 || (map.rank == 1 && map.dimensions[0].source_stride == map.element_bytes &&
                        map.dimensions[0].destination_stride ==
                            static_cast<std::int64_t>(map.destination_element_bytes()));
  stored_item item = item_;
  item.destination_offset = destination;
  item.cast = {};
  if (side_by_side && map.swap_bytes == 0) {
    item.cast = map.cast;
  } else {
    item.map = index_of(map);
  }
  if (!source || source->storage == wanted_stream::kind::raw) {
    if (source) item.file = source->file;
    item.begin = first + (source ? source->offset : 0);
    item.end = item.begin + bytes;
  } else {
    const bool in_file = source->storage == wanted_stream::kind::decoded;
    item.file = in_file ? source->file : no_index;
    item.begin = in_file ? source->offset : 0;
    item.end = in_file ? source->offset + source->bytes : 0;
    item.stream = stream;
    item.stream_offset = first;
    item.stream_bytes = bytes;
  }
  output_.items.push_back(item);
}

// Returns the index of the map. Adds the map unless one of the newest maps is equal. Usually all
// pieces of a tensor share one map, except the pieces at the edges of the tensor.
std::uint32_t piece_splitter::index_of(const strided_map& map) {
  constexpr std::size_t candidates_max = 8;
  const std::size_t count = output_.maps.size();
  for (std::size_t i = count; i > count - std::min(count, candidates_max); --i) {
    if (output_.maps[i - 1] == map) return static_cast<std::uint32_t>(i - 1);
  }
  output_.maps.push_back(map);
  return static_cast<std::uint32_t>(count);
}

result<void> piece_splitter::add_fill(const tensor_form& form) {
  std::vector<strided_dimension> box;
  for (const wanted_dimension& d : box_.dimensions)
    box.push_back({d.wanted.count(), 0, d.destination_stride});
  const coalesced_box split = coalesced(box, box_.element);
  const auto value = static_cast<std::uint32_t>(output_.fill_values.size());
  assert(form.fill.empty() || form.fill.size() == box_.element.bytes);
  output_.fill_values.insert(output_.fill_values.end(), form.fill.begin(), form.fill.end());
  output_.fill_values.resize(value + box_.element.bytes);
  auto bases = bases_of(split.outer, {0, form.destination_offset});
  if (!bases) return bases.error();
  for (const base& start : *bases) {
    output_.fills.push_back({start.destination, item_.destination, index_, index_of(split.map),
                             static_cast<std::uint32_t>(value + start.source),
                             static_cast<std::uint32_t>(split.map.source_bytes())});
  }
  return {};
}

}  // namespace

result<split_tensors> split_pieces(const plan_input& input, std::uint32_t* failed_tensor) {
  split_tensors output;
  output.tensors.resize(input.tensors.size());
  output.items.reserve(input.tensors.size());
  piece_splitter work(input, output);
  for (std::uint32_t t = 0; t < input.tensors.size(); ++t) {
    const std::size_t items = output.items.size();
    const std::size_t fills = output.fills.size();
    if (auto status = work.add_tensor(t); !status) {
      if (failed_tensor) *failed_tensor = t;
      return status.error();
    }
    if (output.items.size() == items + 1 && output.fills.size() == fills)
      output.items[items].is_only_item = true;
  }
  return output;
}

}  // namespace ringload::inline v0
