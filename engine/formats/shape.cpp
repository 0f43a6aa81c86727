// SPDX-License-Identifier: Apache-2.0

#include "formats/shape.hpp"

#include <utility>

#include "base/checked.hpp"

namespace ringload::inline v0 {

namespace {

constexpr std::size_t dims_shown_max = 8;

}  // namespace

std::optional<std::uint64_t> element_count(std::span<const std::uint64_t> shape) noexcept {
  std::uint64_t nonzero = 1;
  bool empty = false;
  for (const std::uint64_t dim : shape) {
    empty = empty || dim == 0;
    const auto next = checked_multiply(nonzero, dim == 0 ? 1 : dim);
    if (!next) return std::nullopt;
    nonzero = *next;
  }
  return empty ? 0 : nonzero;
}

std::shared_ptr<const stored_form> one_stream(stored_stream stream,
                                              const std::vector<std::uint64_t>& shape,
                                              std::uint64_t element_bytes,
                                              std::uint8_t swap_bytes) {
  auto form = std::make_shared<stored_form>();
  form->swap_bytes = swap_bytes;
  piece& whole = form->pieces.emplace_back();
  whole.stored = std::move(stream);
  whole.origin.assign(shape.size(), 0);
  whole.extent = shape;
  whole.stride_bytes.assign(shape.size(), 0);
  std::uint64_t stride = element_bytes;
  for (std::size_t i = shape.size(); i-- > 0;) {
    whole.stride_bytes[i] = stride;
    stride *= shape[i];
  }
  return form;
}

std::string shape_text(std::span<const std::uint64_t> shape) {
  std::string out = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i != 0) out += ", ";
    if (i == dims_shown_max) {
      out += "...";
      break;
    }
    out += std::to_string(shape[i]);
  }
  return out + "]";
}

}  // namespace ringload::inline v0
