// SPDX-License-Identifier: Apache-2.0
#include "plan/resolve.hpp"

#include <algorithm>
#include <cassert>

#include "core/checked.hpp"
#include "core/strided_copy.hpp"

namespace ringload::inline v0 {

namespace {

// Maps of one box, where it has more dimensions than one map can have.
constexpr std::uint64_t maps_of_a_box_max = 4096;

fault too_large() {
  return {errc::size_overflow, "", "the tensors' bytes do not add up within 64 bits"};
}

fault outside() {
  return {errc::extent_outside_file, "", "its bytes end past the end of what is stored"};
}

// Where the maps of a box begin: one for each element of the dimensions that no map has.
struct base {
  std::uint64_t source;
  std::uint64_t destination;
};

result<std::vector<base>> bases_of(std::span<const strided_dimension> outer, base first) {
  std::vector<base> all = {first};
  for (const strided_dimension& d : outer) {
    if (d.count > maps_of_a_box_max / all.size()) {
      return fault{errc::size_overflow, "",
                   "its elements are spread over more dimensions than can be copied"};
    }
    std::vector<base> more;
    for (const base& from : all) {
      for (std::uint64_t i = 0; i < d.count; ++i) {
        more.push_back({from.source + i * d.source_stride,
                        from.destination + i * static_cast<std::uint64_t>(d.destination_stride)});
      }
    }
    all = std::move(more);
  }
  return all;
}

// One tensor at work. Dimensions of fewer than 8 bits an element are first made dimensions of
// bytes.
class resolver {
 public:
  resolver(const plan_input& what, resolved& made) : what_(what), made_(made) {}

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
  result<void> take_row_major(const wanted_stream* of, std::uint32_t stream, std::uint64_t base);
  result<void> take_pieces(const tensor_form& form);
  result<std::uint64_t> take_piece(const stored_box& from);
  result<void> take_box(std::span<const strided_dimension> box, const wanted_stream* of,
                        std::uint32_t stream, std::uint64_t first, std::uint64_t last,
                        std::uint64_t destination);
  result<void> add_fill(const tensor_form& form);
  void add_item(const strided_map& map, const wanted_stream* of, std::uint32_t stream,
                std::uint64_t first, std::uint64_t destination);
  std::uint32_t index_of(const strided_map& map);
  std::uint64_t elements() const;

  const plan_input& what_;
  resolved& made_;
  const wanted_tensor* tensor_ = nullptr;
  std::uint32_t index_ = 0;
  element_form element_;
  std::uint32_t landed_ = 1;  // Bytes of an element in the destination.
  std::vector<dimension> dimensions_;
  stored_item item_;  // What the tensor's items have in common.
};

std::uint64_t resolver::elements() const {
  std::uint64_t product = 1;
  for (const dimension& d : dimensions_) product *= d.wanted.count();
  return product;
}

result<void> resolver::take(std::uint32_t t) {
  const wanted_tensor& wanted = what_.tensors[t];
  tensor_ = &wanted;
  index_ = t;
  item_ = {};
  item_.tensor = t;
  item_.file = wanted.file;
  item_.own_place = true;
  item_.destination = what_.destination_of(wanted.arena);
  made_.tensors[t].as = wanted.as;
  made_.tensors[t].destination = item_.destination;
  if (wanted.form) return take_form(*wanted.form);
  return take_contiguous({}, wanted.bytes);
}

// A run of bytes as they are, or converted.
result<void> resolver::take_contiguous(const tensor_form& form, std::uint64_t bytes) {
  const wanted_tensor& wanted = *tensor_;
  placement& place = made_.tensors[index_];
  const conversion as = wanted.as;
  const auto landed =
      as.needed() ? checked_multiply(bytes / as.from_bytes(), as.to_bytes()) : std::optional(bytes);
  if (!landed || !checked_add(wanted.offset, bytes)) return too_large();
  place.bytes = *landed;
  if (auto good = check_destination(form); !good) return good;
  if (bytes == 0) return {};
  item_.begin = wanted.offset;
  item_.end = wanted.offset + bytes;
  item_.as = as;
  item_.destination_offset = form.destination_offset;
  made_.items.push_back(item_);
  made_.bytes_wanted += bytes;
  return {};
}

result<void> resolver::take_form(const tensor_form& form) {
  placement& place = made_.tensors[index_];
  item_.own_place = form.destination == 0 && form.block == tensor_form::no_block;
  if (form.destination != 0) item_.destination = form.destination;
  if (form.block != tensor_form::no_block) {
    item_.destination = what_.destination_of(what_.blocks[form.block].arena);
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
  if (auto good = in_bits ? take_bits(form) : take_dimensions(form); !good) return good;
  if (auto good = check_destination(form); !good) return good;
  if (elements() == 0) return {};
  return form.in_pieces ? take_pieces(form) : take_row_major(nullptr, no_index, tensor_->offset);
}

// The dimensions of the box, as the tensor's shape and its destination have them.
result<void> resolver::take_dimensions(const tensor_form& form) {
  element_ = {form.element_bits / 8, form.swap_bytes, tensor_->as};
  landed_ = tensor_->as.needed() ? tensor_->as.to_bytes() : element_.bytes;
  assert(!tensor_->as.needed() || tensor_->as.from_bytes() == element_.bytes);
  assert(form.box.empty() || form.box.size() == form.shape.size());
  assert(form.destination_strides.empty() || form.destination_strides.size() == form.shape.size());
  dimensions_.resize(form.shape.size());
  std::uint64_t stored = element_.bytes;
  std::uint64_t landed = landed_;
  for (std::size_t d = form.shape.size(); d > 0; --d) {
    dimension& one = dimensions_[d - 1];
    one.size = form.shape[d - 1];
    one.wanted = form.box.empty() ? range{0, one.size} : form.box[d - 1];
    assert(one.wanted.begin <= one.wanted.end && one.wanted.end <= one.size);
    one.source_stride = stored;
    one.destination_stride = form.destination_strides.empty() ? static_cast<std::int64_t>(landed)
                                                              : form.destination_strides[d - 1];
    const auto more_stored = checked_multiply(stored, std::max<std::uint64_t>(1, one.size));
    const auto more_landed = checked_multiply(landed, one.wanted.count());
    if (!more_stored || !more_landed || *more_landed > ~std::uint64_t{0} / 2) return too_large();
    stored = *more_stored;
    landed = *more_landed;
  }
  made_.tensors[index_].bytes = landed;
  return {};
}

// Of elements that share bytes: rows of whole bytes, and the dimensions outside of them. A row is
// what lies side by side: ranges of one dimension, all of those inside.
result<void> resolver::take_bits(const tensor_form& form) {
  const fault broken = {errc::fractional_bytes, "", "the wanted range does not end on a byte"};
  assert(!tensor_->as.needed() && form.destination_strides.empty() && form.swap_bytes == 0);
  element_ = {};
  landed_ = 1;
  std::uint64_t bits = form.element_bits;  // Of what is inside of a dimension.
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
  made_.tensors[index_].bytes = landed;
  return {};
}

// No byte is written outside of the caller's memory, or of the block.
result<void> resolver::check_destination(const tensor_form& form) {
  if (item_.own_place) return {};
  const std::uint64_t room = form.destination == 0 ? what_.blocks[form.block].bytes
                                                   : what_.destinations[form.destination - 1].bytes;
  std::uint64_t end = form.destination_offset;
  std::uint64_t before = 0;
  bool inside = true;
  const auto add = [&inside](std::uint64_t& sum, std::optional<std::uint64_t> more) {
    const auto total = more ? checked_add(sum, *more) : std::nullopt;
    inside = inside && total.has_value();
    sum = total.value_or(0);
  };
  if (form.destination_strides.empty()) {
    add(end, made_.tensors[index_].bytes);
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
               "it does not fit in the " + grouped(room) + " bytes that it is to be put into"};
}

// The tensor's elements lie row-major from `base` on, in the file or in the stream.
result<void> resolver::take_row_major(const wanted_stream* of, std::uint32_t stream,
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
  return take_box(box, of, stream, *first, *last, tensor_->form->destination_offset);
}

result<void> resolver::take_pieces(const tensor_form& form) {
  if (form.element_bits % 8 != 0) {
    assert(form.pieces.size() == 1);
    const stored_box& all = form.pieces.front();
    return take_row_major(&what_.streams[all.stream], all.stream, all.first_byte);
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

// What of the piece is wanted. Returns the number of elements.
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
    const dimension& one = dimensions_[d];
    const auto extent_end = checked_add(from.origin[d], from.extent[d]);
    if (!extent_end || *extent_end > one.size) return outside();
    const range both = {std::max(one.wanted.begin, from.origin[d]),
                        std::min(one.wanted.end, *extent_end)};
    if (both.begin >= both.end) return std::uint64_t{0};
    const std::uint64_t stride = from.stride_bytes[d];
    const auto skipped = checked_multiply(both.begin - from.origin[d], stride);
    const auto reach = checked_multiply(both.count() - 1, stride);
    const auto begin = skipped ? checked_add(first, *skipped) : std::nullopt;
    const auto longer = reach ? checked_add(span, *reach) : std::nullopt;
    if (!begin || !longer) return outside();
    first = *begin;
    span = *longer;
    destination +=
        (both.begin - one.wanted.begin) * static_cast<std::uint64_t>(one.destination_stride);
    count *= both.count();
    box.push_back({both.count(), stride, one.destination_stride});
  }
  const wanted_stream& of = what_.streams[from.stream];
  const auto end = checked_add(first, span);
  if (!end) return outside();
  auto taken = take_box(box, &of, from.stream, first, *end, destination);
  if (!taken) return taken.error();
  return count;
}

// `first` and `last` are of the file, or in the stream; one that is raw is a part of a file.
result<void> resolver::take_box(std::span<const strided_dimension> box, const wanted_stream* of,
                                std::uint32_t stream, std::uint64_t first, std::uint64_t last,
                                std::uint64_t destination) {
  const std::uint64_t room = of ? of->decoded_bytes : tensor_->offset + tensor_->bytes;
  if (last > room) return outside();
  std::uint64_t distinct = element_.bytes;
  for (const strided_dimension& d : box) distinct *= d.source_stride == 0 ? 1 : d.count;
  made_.bytes_wanted += distinct;

  const coalesced_box all = coalesced(box, element_);
  auto bases = bases_of(all.outer, {first, destination});
  if (!bases) return bases.error();
  for (const base& each : *bases) add_item(all.map, of, stream, each.source, each.destination);
  return {};
}

void resolver::add_item(const strided_map& map, const wanted_stream* of, std::uint32_t stream,
                        std::uint64_t first, std::uint64_t destination) {
  const std::uint64_t bytes = map.source_bytes();
  // Whether it is a run of bytes, or of elements to be converted.
  const bool side_by_side =
      map.rank == 0 ||
      (map.rank == 1 && map.dimensions[0].source_stride == map.element_bytes &&
       map.dimensions[0].destination_stride == static_cast<std::int64_t>(map.landed_bytes()));
  stored_item item = item_;
  item.destination_offset = destination;
  item.as = {};
  if (side_by_side && map.swap_bytes == 0) {
    item.as = map.as;
  } else {
    item.map = index_of(map);
  }
  if (!of || of->how == wanted_stream::kind::raw) {
    if (of) item.file = of->file;
    item.begin = first + (of ? of->offset : 0);
    item.end = item.begin + bytes;
  } else {
    const bool in_file = of->how == wanted_stream::kind::decoded;
    item.file = in_file ? of->file : no_index;
    item.begin = in_file ? of->offset : 0;
    item.end = in_file ? of->offset + of->bytes : 0;
    item.stream = stream;
    item.stream_offset = first;
    item.stream_bytes = bytes;
  }
  made_.items.push_back(item);
}

// The pieces of a tensor have the same map, but for those at its edges.
std::uint32_t resolver::index_of(const strided_map& map) {
  constexpr std::size_t looked_at = 8;
  const std::size_t count = made_.maps.size();
  for (std::size_t i = count; i > count - std::min(count, looked_at); --i) {
    if (made_.maps[i - 1] == map) return static_cast<std::uint32_t>(i - 1);
  }
  made_.maps.push_back(map);
  return static_cast<std::uint32_t>(count);
}

result<void> resolver::add_fill(const tensor_form& form) {
  std::vector<strided_dimension> box;
  for (const dimension& d : dimensions_) box.push_back({d.wanted.count(), 0, d.destination_stride});
  const coalesced_box all = coalesced(box, element_);
  const auto value = static_cast<std::uint32_t>(made_.fill_values.size());
  assert(form.fill.empty() || form.fill.size() == element_.bytes);
  made_.fill_values.insert(made_.fill_values.end(), form.fill.begin(), form.fill.end());
  made_.fill_values.resize(value + element_.bytes);
  auto bases = bases_of(all.outer, {0, form.destination_offset});
  if (!bases) return bases.error();
  for (const base& each : *bases) {
    made_.fills.push_back({each.destination, item_.destination, index_, index_of(all.map),
                           static_cast<std::uint32_t>(value + each.source),
                           static_cast<std::uint32_t>(all.map.source_bytes())});
  }
  return {};
}

}  // namespace

result<resolved> resolve(const plan_input& what, std::uint32_t* culprit) {
  resolved made;
  made.tensors.resize(what.tensors.size());
  made.items.reserve(what.tensors.size());
  resolver work(what, made);
  for (std::uint32_t t = 0; t < what.tensors.size(); ++t) {
    const std::size_t items = made.items.size();
    const std::size_t fills = made.fills.size();
    if (auto good = work.take(t); !good) {
      if (culprit) *culprit = t;
      return good.error();
    }
    if (made.items.size() == items + 1 && made.fills.size() == fills) made.items[items].only = true;
  }
  return made;
}

}  // namespace ringload::inline v0
