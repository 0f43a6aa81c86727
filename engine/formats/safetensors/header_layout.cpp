// SPDX-License-Identifier: Apache-2.0

#include "formats/safetensors/header_layout.hpp"

#include <algorithm>
#include <optional>
#include <ringload/dtype.hpp>
#include <string>
#include <tuple>
#include <utility>

#include "base/checked.hpp"
#include "base/printable.hpp"
#include "formats/shape.hpp"

namespace ringload::inline v0 {

namespace {

fault at_tensor(errc code, const entry& tensor, const claim& c, std::string cause) {
  return {code, tensor_place(tensor.name) + ", byte " + grouped(c.file_byte), std::move(cause)};
}

// Returns a text such as "F32 [2, 3]".
std::string described(const entry& tensor) {
  return std::string(name(tensor.dtype)) + " " + shape_text(tensor.shape);
}

std::string offsets(const claim& c) {
  return "[" + grouped(c.begin) + " : " + grouped(c.end) + "]";
}

// Multiplies from left to right, like the reference implementation: the product of [0, 2^63, 2^63]
// is 0, but the product of [2^63, 2, 0] overflows. `strictness::strict` refuses both shapes,
// because other readers multiply in another order and may overflow.
std::optional<std::uint64_t> elements(const entry& tensor, strictness strictness) noexcept {
  std::uint64_t product = 1;
  std::uint64_t nonzero_product = 1;
  for (const std::uint64_t dim : tensor.shape) {
    const auto next = checked_multiply(product, dim);
    const auto next_nonzero = dim == 0 ? nonzero_product : checked_multiply(nonzero_product, dim);
    if (!next || (!next_nonzero && strictness == strictness::strict)) return std::nullopt;
    product = *next;
    nonzero_product = next_nonzero.value_or(0);
  }
  return product;
}

// `expected` is the end of the previous tensor, or 0 for the first tensor.
std::optional<fault> check_place(const entry& tensor, const claim& c, std::uint64_t expected) {
  if (c.begin == expected && c.end >= c.begin) return std::nullopt;
  std::string cause = "its data_offsets are " + offsets(c);
  if (c.end < c.begin) {
    cause += ", which is reversed";
  } else if (c.begin < expected) {
    cause += ", but the bytes before " + grouped(expected) + " belong to another tensor";
  } else {
    cause += ", which leaves a hole after " + grouped(expected);
  }
  return at_tensor(errc::invalid_offsets, tensor, c, std::move(cause));
}

std::optional<fault> check_size(const entry& tensor, const claim& c, strictness strictness) {
  const auto count = elements(tensor, strictness);
  const auto bits_needed =
      count ? checked_multiply(*count, bits(tensor.dtype)) : std::optional<std::uint64_t>{};
  if (!bits_needed) {
    return at_tensor(errc::size_overflow, tensor, c,
                     "the size of " + described(tensor) + " does not fit in 64 bits");
  }
  if (*bits_needed % 8 != 0) {
    return at_tensor(
        errc::fractional_bytes, tensor, c,
        described(tensor) + " is " + grouped(*bits_needed) + " bits, expected a multiple of 8");
  }
  if (*bits_needed / 8 != c.end - c.begin) {
    return at_tensor(errc::wrong_tensor_bytes, tensor, c,
                     described(tensor) + " needs " + grouped(*bits_needed / 8) +
                         " bytes but its data_offsets " + offsets(c) + " give it " +
                         grouped(c.end - c.begin));
  }
  return std::nullopt;
}

// Returns the fault for a file that does not end at `data_end`, the end of the last tensor.
fault at_wrong_end(const safetensors_json& header, data_section data, std::uint64_t data_end) {
  if (data_end < data.file_bytes) {
    return {errc::trailing_bytes, "byte " + grouped(data_end),
            "the last tensor ends here, but the file ends at " + grouped(data.file_bytes)};
  }
  // Finds the first tensor that ends past the end of the file.
  const auto cut = std::ranges::find_if(
      header.claims, [&](const claim& c) { return c.end > data.file_bytes - data.begin; });
  return at_tensor(errc::extent_outside_file, header.tensors[cut->tensor], *cut,
                   "its bytes end at " + grouped(data.begin + cut->end) + " but the file ends at " +
                       grouped(data.file_bytes));
}

}  // namespace

result<std::vector<entry>> lay_out(safetensors_json header, data_section data,
                                   strictness strictness) {
  std::ranges::sort(header.claims, {},
                    [](const claim& c) { return std::tuple(c.begin, c.end, c.tensor); });
  std::uint64_t expected = 0;
  for (const claim& c : header.claims) {
    const entry& tensor = header.tensors[c.tensor];
    if (auto failure = check_place(tensor, c, expected)) return *failure;
    if (auto failure = check_size(tensor, c, strictness)) return *failure;
    expected = c.end;
  }
  const auto data_end = checked_add(data.begin, expected);
  if (!data_end) {
    return fault{errc::size_overflow, "", "the total size of the tensors does not fit in 64 bits"};
  }
  if (*data_end != data.file_bytes) return at_wrong_end(header, data, *data_end);

  std::vector<entry> placed;
  placed.reserve(header.claims.size());
  for (const claim& c : header.claims) {
    entry& tensor = placed.emplace_back(std::move(header.tensors[c.tensor]));
    tensor.offset = data.begin + c.begin;
    tensor.bytes = c.end - c.begin;
  }
  return placed;
}

}  // namespace ringload::inline v0
