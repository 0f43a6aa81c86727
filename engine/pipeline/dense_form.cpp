// SPDX-License-Identifier: Apache-2.0
#include "pipeline/dense_form.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "core/checked.hpp"
#include "core/strided_gather.hpp"
#include "formats/dense.hpp"

namespace ringload::inline v0::detail {

namespace {

fault wrong(std::string cause) { return {errc::invalid_tensor, "", std::move(cause)}; }

// Strides in bytes, if they and what they reach fit in 63 bits.
result<std::vector<std::int64_t>> stride_bytes(const tensor_view& of, std::int64_t element_bytes) {
  if (of.strides.size() != of.shape.size()) {
    return wrong("it has " + grouped(of.strides.size()) + " strides and " +
                 grouped(of.shape.size()) + " dimensions");
  }
  std::vector<std::int64_t> out;
  for (std::size_t d = 0; d < of.strides.size(); ++d) {
    std::int64_t bytes = 0;
    std::int64_t reach = 0;
    const bool fits =
        of.shape[d] <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) &&
        !__builtin_mul_overflow(of.strides[d], element_bytes, &bytes) &&
        !__builtin_mul_overflow(bytes, static_cast<std::int64_t>(of.shape[d]), &reach);
    if (!fits) return wrong("its strides reach further than 63 bits");
    out.push_back(bytes);
  }
  return out;
}

}  // namespace

result<std::uint64_t> dense_bytes(const tensor_view& of) {
  const auto count = element_count(of.shape);
  const auto total = count ? checked_multiply(*count, bits(of.dtype)) : count;
  if (!total) {
    return fault{errc::size_overflow, "",
                 "the size of " + std::string(name(of.dtype)) + " " + shape_text(of.shape) +
                     " does not fit in 64 bits"};
  }
  if (*total % 8 != 0) {
    return fault{errc::fractional_bytes, "", "it does not end on a byte"};
  }
  return *total / 8;
}

result<readable_bytes> dense_form(const tensor_view& of) {
  auto bytes = dense_bytes(of);
  if (!bytes) return bytes.error();
  if (of.on.kind() != device_kind::host) {
    return fault{errc::device_unavailable, "",
                 "its memory is of " + of.on.name() + ", not of the host"};
  }
  if (of.data == nullptr && *bytes > 0) return wrong("its address is null");
  const auto* const first = static_cast<const std::byte*>(of.data);
  const auto element_bytes = static_cast<std::uint32_t>(bits(of.dtype) / 8);
  strided_elements elements;
  if (!of.strides.empty()) {
    if (bits(of.dtype) % 8 != 0) return wrong("types of less than a byte have no strides");
    auto strides = stride_bytes(of, element_bytes);
    if (!strides) return strides.error();
    elements = strided_elements(element_bytes, of.shape, *strides);
  }
  if (of.strides.empty() || *bytes == 0 || elements.dense()) {
    if (of.bytes != 0 && of.bytes < *bytes) {
      return wrong("it needs " + grouped(*bytes) + " bytes, and its memory has " +
                   grouped(of.bytes));
    }
    return readable_bytes([first](std::uint64_t offset,
                                  std::span<std::byte> room) -> result<std::span<const std::byte>> {
      return std::span(first + offset, room.size());
    });
  }
  // Who reads asks for pieces of MiBs, which begin and end with an element.
  return readable_bytes(
      [first, elements = std::move(elements), element_bytes](
          std::uint64_t offset, std::span<std::byte> room) -> result<std::span<const std::byte>> {
        elements.gather(first, offset / element_bytes, room.size() / element_bytes, room.data());
        return room;
      });
}

}  // namespace ringload::inline v0::detail
