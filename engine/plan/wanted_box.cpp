// SPDX-License-Identifier: Apache-2.0

#include "plan/wanted_box.hpp"

#include <algorithm>
#include <cassert>

#include "base/checked.hpp"

namespace ringload::inline v0 {

namespace {

result<wanted_box> box_of_elements(const tensor_form& form, const conversion& cast) {
  wanted_box box;
  box.element = {form.element_bits / 8, form.swap_bytes, cast};
  box.destination_element_bytes = cast.needed() ? cast.to_bytes() : box.element.bytes;
  assert(!cast.needed() || cast.from_bytes() == box.element.bytes);
  assert(form.box.empty() || form.box.size() == form.shape.size());
  assert(form.destination_strides.empty() || form.destination_strides.size() == form.shape.size());
  box.dimensions.resize(form.shape.size());
  std::uint64_t source_bytes = box.element.bytes;
  std::uint64_t destination_bytes = box.destination_element_bytes;
  for (std::size_t d = form.shape.size(); d > 0; --d) {
    wanted_dimension& dim = box.dimensions[d - 1];
    dim.size = form.shape[d - 1];
    dim.wanted = form.box.empty() ? range{0, dim.size} : form.box[d - 1];
    assert(dim.wanted.begin <= dim.wanted.end && dim.wanted.end <= dim.size);
    dim.source_stride = source_bytes;
    dim.destination_stride = form.destination_strides.empty()
                                 ? static_cast<std::int64_t>(destination_bytes)
                                 : form.destination_strides[d - 1];
    const auto outer_source_bytes =
        checked_multiply(source_bytes, std::max<std::uint64_t>(1, dim.size));
    const auto outer_destination_bytes = checked_multiply(destination_bytes, dim.wanted.count());
    if (!outer_source_bytes || !outer_destination_bytes ||
        *outer_destination_bytes > ~std::uint64_t{0} / 2)
      return bytes_overflow();
    source_bytes = *outer_source_bytes;
    destination_bytes = *outer_destination_bytes;
  }
  box.bytes = destination_bytes;
  return box;
}

// Computes the box for elements with fewer than 8 bits. An empty box has one dimension without
// bytes. Otherwise the inner dimensions that are wanted
// completely, and the next dimension outside of them, form a row. The innermost dimension of
// the result counts the bytes of a row. The other dimensions of the result are the tensor
// dimensions outside of the row.
result<wanted_box> box_of_bits(const tensor_form& form, [[maybe_unused]] const conversion& cast) {
  wanted_box box;
  const fault broken = {errc::fractional_bytes, "",
                        "the selected range must begin and end on a whole byte"};
  assert(!cast.needed() && form.destination_strides.empty() && form.swap_bytes == 0);
  // Distance between adjacent indices of the current dimension, in bits.
  std::uint64_t bits = form.element_bits;
  std::size_t d = form.shape.size();
  const auto wanted_of = [&](std::size_t k) {
    return form.box.empty() ? range{0, form.shape[k]} : form.box[k];
  };
  for (std::size_t k = 0; k < d; ++k) {
    if (wanted_of(k).count() != 0) continue;
    box.dimensions.assign(1, wanted_dimension{{0, 0}, 0, 1, 1});
    return box;
  }
  while (d > 0 && wanted_of(d - 1) == range{0, form.shape[d - 1]}) {
    const auto more = checked_multiply(bits, form.shape[--d]);
    if (!more) return bytes_overflow();
    bits = *more;
  }
  wanted_dimension row = {{0, bits}, bits, 1, 1};
  if (d > 0) {
    --d;
    const range part = wanted_of(d);
    const auto size = checked_multiply(bits, form.shape[d]);
    if (!size) return bytes_overflow();
    row = {{part.begin * bits, part.end * bits}, *size, 1, 1};
  }
  if (row.wanted.begin % 8 != 0 || row.wanted.end % 8 != 0) return broken;
  if (d > 0 && row.size % 8 != 0) return broken;
  row.wanted = {row.wanted.begin / 8, row.wanted.end / 8};
  row.size /= 8;
  box.dimensions.assign(1, row);
  std::uint64_t source_bytes = row.size;
  std::uint64_t destination_bytes = row.wanted.count();
  while (d > 0) {
    --d;
    box.dimensions.insert(box.dimensions.begin(), {wanted_of(d), form.shape[d], source_bytes,
                                                   static_cast<std::int64_t>(destination_bytes)});
    const auto outer_source_bytes =
        checked_multiply(source_bytes, std::max<std::uint64_t>(1, form.shape[d]));
    const auto outer_destination_bytes = checked_multiply(destination_bytes, wanted_of(d).count());
    if (!outer_source_bytes || !outer_destination_bytes ||
        *outer_destination_bytes > ~std::uint64_t{0} / 2)
      return bytes_overflow();
    source_bytes = *outer_source_bytes;
    destination_bytes = *outer_destination_bytes;
  }
  box.bytes = destination_bytes;
  return box;
}

}  // namespace

fault bytes_overflow() {
  return {errc::size_overflow, "", "the total size of the tensors does not fit in 64 bits"};
}

std::uint64_t wanted_box::elements() const {
  std::uint64_t product = 1;
  for (const wanted_dimension& d : dimensions) product *= d.wanted.count();
  return product;
}

result<wanted_box> box_of(const tensor_form& form, const conversion& cast) {
  return form.element_bits % 8 != 0 ? box_of_bits(form, cast) : box_of_elements(form, cast);
}

result<void> check_destination_size(const tensor_form& form, const wanted_box& box,
                                    std::uint64_t destination_bytes) {
  // An empty part of a fused tensor may have an offset past the end of the destination.
  if (box.bytes == 0) return {};
  std::uint64_t end = form.destination_offset;
  std::uint64_t before = 0;
  bool inside = true;
  const auto add = [&inside](std::uint64_t& sum, std::optional<std::uint64_t> more) {
    const auto total = more ? checked_add(sum, *more) : std::nullopt;
    inside = inside && total.has_value();
    sum = total.value_or(0);
  };
  if (form.destination_strides.empty()) {
    add(end, box.bytes);
  } else if (box.elements() > 0) {
    add(end, box.destination_element_bytes);
    for (const wanted_dimension& d : box.dimensions) {
      const auto stride = static_cast<std::uint64_t>(d.destination_stride);
      const bool is_negative = d.destination_stride < 0;
      add(is_negative ? before : end,
          checked_multiply(d.wanted.count() - 1, is_negative ? 0 - stride : stride));
    }
  }
  if (inside && before <= form.destination_offset && end <= destination_bytes) return {};
  return fault{
      errc::memory_exceeded, "",
      "the tensor does not fit in the " + grouped(destination_bytes) + " bytes of its destination"};
}

}  // namespace ringload::inline v0
