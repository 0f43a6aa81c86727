// SPDX-License-Identifier: Apache-2.0
#include "plan/split_pieces.hpp"

#include <algorithm>
#include <cassert>

#include "base/checked.hpp"
#include "base/numeric/strided_copy.hpp"

namespace ringload::inline v0 {

namespace {

// Limit on the maps of one box that has more dimensions than one map can have.
constexpr std::uint64_t maps_of_a_box_max = 4096;

fault too_large() {
  return {errc::size_overflow, "", "the tensors' bytes do not add up within 64 bits"};
}

fault outside() {
  return {errc::extent_outside_file, "", "its bytes end past the end of what is stored"};
}

// The start of one map of a box. There is one base for each element of the dimensions outside the
// map.
struct base {
  std::uint64_t source;
  std::uint64_t destination;
};

result<std::vector<base>> bases_of(std::span<const strided_dimension> outer, base first) {
  std::vector<base> bases = {first};
  for (const strided_dimension& d : outer) {
    if (d.count > maps_of_a_box_max / bases.size()) {
      return fault{errc::size_overflow, "",
                   "its elements are spread over more dimensions than can be copied"};
    }
    std::vector<base> more;
    for (const base& from : bases) {
      for (std::uint64_t i = 0; i < d.count; ++i) {
        more.push_back({from.source + i * d.source_stride,
                        from.destination + i * static_cast<std::uint64_t>(d.destination_stride)});
      }
    }
    bases = std::move(more);
  }
  return bases;
}

// Resolves one tensor. Dimensions of elements below 8 bits are first turned into dimensions of
// bytes.
class resolver {
 public:
  resolver(const plan_input& input, resolved& output) : input_(input), output_(output) {}

  result<void> take(std::uint32_t t);

 private:
  struct dimension {
    range wanted;
    std::uint64_t size;
    std::uint64_t source_stride;  // Row-major.
    std::int64_t destination_stride;
  };

  result<void> take_form(const tensor_form& form);
  result<void> take_dimensions(const tensor_form& form);
  result<void> take_bits(const tensor_form& form);
  result<void> check_destination(const tensor_form& form);
  result<void> take_contiguous(const tensor_form& form, std::uint64_t bytes);
  result<void> take_row_major(const wanted_stream* source, std::uint32_t stream,
                              std::uint64_t base);
  result<void> take_pieces(const tensor_form& form);
  result<std::uint64_t> take_piece(const stored_box& from);
  result<void> take_box(std::span<const strided_dimension> box, const wanted_stream* source,
                        std::uint32_t stream, std::uint64_t first, std::uint64_t last,
                        std::uint64_t destination);
  result<void> add_fill(const tensor_form& form);
  void add_item(const strided_map& map, const wanted_stream* source, std::uint32_t stream,
                std::uint64_t first, std::uint64_t destination);
  std::uint32_t index_of(const strided_map& map);
  std::uint64_t elements() const;

  const plan_input& input_;
  resolved& output_;
  const wanted_tensor* tensor_ = nullptr;
  std::uint32_t index_ = 0;
  element_form element_;
  std::uint32_t landed_ = 1;  // Bytes of an element in the destination.
  std::vector<dimension> dimensions_;
  stored_item item_;  // The members that all items of the tensor share.
};

std::uint64_t resolver::elements() const {
  std::uint64_t product = 1;
  for (const dimension& d : dimensions_) product *= d.wanted.count();
  return product;
}

result<void> resolver::take(std::uint32_t t) {
  const wanted_tensor& wanted = input_.tensors[t];
  tensor_ = &wanted;
  index_ = t;
  item_ = {};
  item_.tensor = t;
  item_.file = wanted.file;
  item_.own_place = true;
  item_.destination = input_.destination_of(wanted.arena);
  output_.tensors[t].cast = wanted.cast;
  output_.tensors[t].destination = item_.destination;
  if (wanted.form) return take_form(*wanted.form);
  return take_contiguous({}, wanted.bytes);
}

// A run of bytes, unchanged or converted.
result<void> resolver::take_contiguous(const tensor_form& form, std::uint64_t bytes) {
  const wanted_tensor& wanted = *tensor_;
  placement& place = output_.tensors[index_];
  const conversion target = wanted.cast;
  const auto landed = target.needed()
                          ? checked_multiply(bytes / target.from_bytes(), target.to_bytes())
                          : std::optional(bytes);
  if (!landed || !checked_add(wanted.offset, bytes)) return too_large();
  place.bytes = *landed;
  if (auto status = check_destination(form); !status) return status;
  if (bytes == 0) return {};
  item_.begin = wanted.offset;
  item_.end = wanted.offset + bytes;
  item_.cast = target;
  item_.destination_offset = form.destination_offset;
  output_.items.push_back(item_);
  output_.bytes_wanted += bytes;
  return {};
}

result<void> resolver::take_form(const tensor_form& form) {
  placement& place = output_.tensors[index_];
  item_.own_place = form.destination == 0 && form.block == tensor_form::no_block;
  if (form.destination != 0) item_.destination = form.destination;
  if (form.block != tensor_form::no_block) {
    item_.destination = input_.destination_of(input_.blocks[form.block].arena);
  }
  item_.block = form.block;
  place.destination = item_.destination;
  place.destination_offset = form.destination_offset;
  assert(form.destination == 0 || form.block == tensor_form::no_block);
  assert(!item_.own_place || (form.destination_strides.empty() && form.destination_offset == 0));

  const bool plain = !form.in_pieces && form.box.empty() && form.destination_strides.empty() &&
                     form.swap_bytes == 0;
  if (plain) return take_contiguous(form, tensor_->bytes);

  const bool in_bits = form.element_bits % 8 != 0;
  if (auto status = in_bits ? take_bits(form) : take_dimensions(form); !status) return status;
  if (auto status = check_destination(form); !status) return status;
  if (elements() == 0) return {};
  return form.in_pieces ? take_pieces(form) : take_row_major(nullptr, no_index, tensor_->offset);
}

// Sets the dimensions of the box from the shape of the tensor and its destination strides.
result<void> resolver::take_dimensions(const tensor_form& form) {
  element_ = {form.element_bits / 8, form.swap_bytes, tensor_->cast};
  landed_ = tensor_->cast.needed() ? tensor_->cast.to_bytes() : element_.bytes;
  assert(!tensor_->cast.needed() || tensor_->cast.from_bytes() == element_.bytes);
  assert(form.box.empty() || form.box.size() == form.shape.size());
  assert(form.destination_strides.empty() || form.destination_strides.size() == form.shape.size());
  dimensions_.resize(form.shape.size());
  std::uint64_t stored = element_.bytes;
  std::uint64_t landed = landed_;
  for (std::size_t d = form.shape.size(); d > 0; --d) {
    dimension& dim = dimensions_[d - 1];
    dim.size = form.shape[d - 1];
    dim.wanted = form.box.empty() ? range{0, dim.size} : form.box[d - 1];
    assert(dim.wanted.begin <= dim.wanted.end && dim.wanted.end <= dim.size);
    dim.source_stride = stored;
    dim.destination_stride = form.destination_strides.empty() ? static_cast<std::int64_t>(landed)
                                                              : form.destination_strides[d - 1];
    const auto more_stored = checked_multiply(stored, std::max<std::uint64_t>(1, dim.size));
    const auto more_landed = checked_multiply(landed, dim.wanted.count());
    if (!more_stored || !more_landed || *more_landed > ~std::uint64_t{0} / 2) return too_large();
    stored = *more_stored;
    landed = *more_landed;
  }
  output_.tensors[index_].bytes = landed;
  return {};
}

// For elements that share bytes: reduces the box to rows of whole bytes and the dimensions outside
// them. A row is a range of one dimension with all dimensions inside it.
result<void> resolver::take_bits(const tensor_form& form) {
  const fault broken = {errc::fractional_bytes, "", "the wanted range does not end on a byte"};
  assert(!tensor_->cast.needed() && form.destination_strides.empty() && form.swap_bytes == 0);
  element_ = {};
  landed_ = 1;
  std::uint64_t bits = form.element_bits;  // Bits of one index of the current dimension.
  std::size_t d = form.shape.size();
  const auto wanted_of = [&](std::size_t k) {
    return form.box.empty() ? range{0, form.shape[k]} : form.box[k];
  };
  while (d > 0 && wanted_of(d - 1) == range{0, form.shape[d - 1]}) {
    const auto more = checked_multiply(bits, form.shape[--d]);
    if (!more) return too_large();
    bits = *more;
  }
  dimension row = {{0, bits}, bits, 1, 1};
  if (d > 0) {
    --d;
    const range part = wanted_of(d);
    const auto size = checked_multiply(bits, form.shape[d]);
    if (!size) return too_large();
    row = {{part.begin * bits, part.end * bits}, *size, 1, 1};
  }
  if (row.wanted.begin % 8 != 0 || row.wanted.end % 8 != 0) return broken;
  if (d > 0 && row.size % 8 != 0) return broken;
  row.wanted = {row.wanted.begin / 8, row.wanted.end / 8};
  row.size /= 8;
  dimensions_.assign(1, row);
  std::uint64_t stored = row.size;
  std::uint64_t landed = row.wanted.count();
  while (d > 0) {
    --d;
    dimensions_.insert(dimensions_.begin(),
                       {wanted_of(d), form.shape[d], stored, static_cast<std::int64_t>(landed)});
    const auto more_stored = checked_multiply(stored, std::max<std::uint64_t>(1, form.shape[d]));
    const auto more_landed = checked_multiply(landed, wanted_of(d).count());
    if (!more_stored || !more_landed || *more_landed > ~std::uint64_t{0} / 2) return too_large();
    stored = *more_stored;
    landed = *more_landed;
  }
  output_.tensors[index_].bytes = landed;
  return {};
}

// Ensures that no byte is written outside the caller's memory or the block.
result<void> resolver::check_destination(const tensor_form& form) {
  if (item_.own_place) return {};
  const std::uint64_t room = form.destination == 0
                                 ? input_.blocks[form.block].bytes
                                 : input_.destinations[form.destination - 1].bytes;
  std::uint64_t end = form.destination_offset;
  std::uint64_t before = 0;
  bool inside = true;
  const auto add = [&inside](std::uint64_t& sum, std::optional<std::uint64_t> more) {
    const auto total = more ? checked_add(sum, *more) : std::nullopt;
    inside = inside && total.has_value();
    sum = total.value_or(0);
  };
  if (form.destination_strides.empty()) {
    add(end, output_.tensors[index_].bytes);
  } else if (elements() > 0) {
    add(end, landed_);
    for (const dimension& d : dimensions_) {
      const auto stride = static_cast<std::uint64_t>(d.destination_stride);
      const bool back = d.destination_stride < 0;
      add(back ? before : end, checked_multiply(d.wanted.count() - 1, back ? 0 - stride : stride));
    }
  }
  if (inside && before <= form.destination_offset && end <= room) return {};
  return fault{errc::memory_exceeded, "",
               "it does not fit in the " + grouped(room) + " bytes of its destination"};
}

// The tensor's elements are row-major from `base` on, in the file or in the stream.
result<void> resolver::take_row_major(const wanted_stream* source, std::uint32_t stream,
                                      std::uint64_t base) {
  std::vector<strided_dimension> box;
  std::uint64_t skipped = 0;
  std::uint64_t span = element_.bytes;
  for (const dimension& d : dimensions_) {
    box.push_back({d.wanted.count(), d.source_stride, d.destination_stride});
    skipped += d.wanted.begin * d.source_stride;
    span += (d.wanted.count() - 1) * d.source_stride;
  }
  const auto first = checked_add(base, skipped);
  const auto last = first ? checked_add(*first, span) : std::nullopt;
  if (!last) return outside();
  return take_box(box, source, stream, *first, *last, tensor_->form->destination_offset);
}

result<void> resolver::take_pieces(const tensor_form& form) {
  if (form.element_bits % 8 != 0) {
    assert(form.pieces.size() == 1);
    const stored_box& whole = form.pieces.front();
    return take_row_major(&input_.streams[whole.stream], whole.stream, whole.first_byte);
  }
  std::uint64_t found = 0;
  for (const stored_box& piece : form.pieces) {
    auto count = take_piece(piece);
    if (!count) return count.error();
    found += *count;
  }
  if (found >= elements()) return {};
  return add_fill(form);
}

// Adds the wanted elements of the piece and returns their number.
result<std::uint64_t> resolver::take_piece(const stored_box& from) {
  const std::size_t rank = dimensions_.size();
  assert(from.origin.size() == rank && from.extent.size() == rank &&
         from.stride_bytes.size() == rank);
  std::vector<strided_dimension> box;
  std::uint64_t first = from.first_byte;
  std::uint64_t span = element_.bytes;
  std::uint64_t destination = tensor_->form->destination_offset;
  std::uint64_t count = 1;
  for (std::size_t d = 0; d < rank; ++d) {
    const dimension& dim = dimensions_[d];
    const auto extent_end = checked_add(from.origin[d], from.extent[d]);
    if (!extent_end || *extent_end > dim.size) return outside();
    const range overlap = {std::max(dim.wanted.begin, from.origin[d]),
                           std::min(dim.wanted.end, *extent_end)};
    if (overlap.begin >= overlap.end) return std::uint64_t{0};
    const std::uint64_t stride = from.stride_bytes[d];
    const auto skipped = checked_multiply(overlap.begin - from.origin[d], stride);
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
  const wanted_stream& source = input_.streams[from.stream];
  const auto end = checked_add(first, span);
  if (!end) return outside();
  auto taken = take_box(box, &source, from.stream, first, *end, destination);
  if (!taken) return taken.error();
  return count;
}

// `first` and `last` are offsets in the file or in the stream. A raw stream is a part of a file.
result<void> resolver::take_box(std::span<const strided_dimension> box, const wanted_stream* source,
                                std::uint32_t stream, std::uint64_t first, std::uint64_t last,
                                std::uint64_t destination) {
  const std::uint64_t room = source ? source->decoded_bytes : tensor_->offset + tensor_->bytes;
  if (last > room) return outside();
  std::uint64_t distinct = element_.bytes;
  for (const strided_dimension& d : box) distinct *= d.source_stride == 0 ? 1 : d.count;
  output_.bytes_wanted += distinct;

  const coalesced_box split = coalesced(box, element_);
  auto bases = bases_of(split.outer, {first, destination});
  if (!bases) return bases.error();
  for (const base& start : *bases)
    add_item(split.map, source, stream, start.source, start.destination);
  return {};
}

void resolver::add_item(const strided_map& map, const wanted_stream* source, std::uint32_t stream,
                        std::uint64_t first, std::uint64_t destination) {
  const std::uint64_t bytes = map.source_bytes();
  // A run of bytes, or of elements to be converted.
  const bool side_by_side =
      map.rank == 0 ||
      (map.rank == 1 && map.dimensions[0].source_stride == map.element_bytes &&
       map.dimensions[0].destination_stride == static_cast<std::int64_t>(map.landed_bytes()));
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

// Reuses a recent equal map: the pieces of a tensor share one map, except at its edges.
std::uint32_t resolver::index_of(const strided_map& map) {
  constexpr std::size_t candidates_max = 8;
  const std::size_t count = output_.maps.size();
  for (std::size_t i = count; i > count - std::min(count, candidates_max); --i) {
    if (output_.maps[i - 1] == map) return static_cast<std::uint32_t>(i - 1);
  }
  output_.maps.push_back(map);
  return static_cast<std::uint32_t>(count);
}

result<void> resolver::add_fill(const tensor_form& form) {
  std::vector<strided_dimension> box;
  for (const dimension& d : dimensions_) box.push_back({d.wanted.count(), 0, d.destination_stride});
  const coalesced_box split = coalesced(box, element_);
  const auto value = static_cast<std::uint32_t>(output_.fill_values.size());
  assert(form.fill.empty() || form.fill.size() == element_.bytes);
  output_.fill_values.insert(output_.fill_values.end(), form.fill.begin(), form.fill.end());
  output_.fill_values.resize(value + element_.bytes);
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

result<resolved> resolve(const plan_input& input, std::uint32_t* culprit) {
  resolved output;
  output.tensors.resize(input.tensors.size());
  output.items.reserve(input.tensors.size());
  resolver work(input, output);
  for (std::uint32_t t = 0; t < input.tensors.size(); ++t) {
    const std::size_t items = output.items.size();
    const std::size_t fills = output.fills.size();
    if (auto status = work.take(t); !status) {
      if (culprit) *culprit = t;
      return status.error();
    }
    if (output.items.size() == items + 1 && output.fills.size() == fills)
      output.items[items].only = true;
  }
  return output;
}

}  // namespace ringload::inline v0
