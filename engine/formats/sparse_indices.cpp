// SPDX-License-Identifier: Apache-2.0

#include "formats/sparse_indices.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include "base/checked.hpp"
#include "formats/text/little_endian.hpp"

namespace ringload::inline v0 {

namespace {

fault wrong(std::string cause) { return {errc::wrong_indices, "", std::move(cause)}; }

// Returns the bounds of the coordinates of a sparse_coo object. In .zt and PyTorch, all coordinates
// of one dimension are adjacent. In ONNX, all coordinates of one value are adjacent, or each value
// has a single linear index.
std::optional<index_rule> coordinates_rule(const composite_info& whole, std::string_view part,
                                           const std::vector<std::uint64_t>& shape,
                                           std::uint64_t values) {
  index_rule rule;
  rule.bounds = whole.shape;
  rule.run = std::max<std::uint64_t>(values, 1);
  // In PyTorch, "indices" is the first part. In ONNX, the part "indices" follows "values".
  if (part == "indices" && whole.parts.front() == part) {
    if (shape.size() != 2 || shape[0] > rule.bounds.size()) return std::nullopt;
    rule.bounds.resize(static_cast<std::size_t>(shape[0]));  // The other dimensions are dense.
    rule.run = std::max<std::uint64_t>(shape[1], 1);
  } else if (part == "indices") {
    rule.run = 1;
    if (shape.size() == 1) {
      std::uint64_t elements = 1;
      for (const std::uint64_t size : whole.shape) {
        elements = checked_multiply(elements, size).value_or(UINT64_MAX);
      }
      rule.bounds = {elements};
    }
  } else if (part != "coords") {
    return std::nullopt;
  }
  return rule.bounds.empty() ? std::nullopt : std::optional(std::move(rule));
}

std::optional<index_rule> rule_of(const composite_info& whole, std::string_view part,
                                  const std::vector<std::uint64_t>& shape, std::uint64_t values) {
  if (whole.layout == "sparse_coo") return coordinates_rule(whole, part, shape, values);
  if (whole.layout != "sparse_csr" || whole.shape.size() != 2) return std::nullopt;
  index_rule rule;
  if (part == "indices" || part == "col_indices") {
    rule.bounds = {whole.shape[1]};
    return rule;
  }
  if (part != "indptr" && part != "crow_indices") return std::nullopt;
  rule.last = values;
  return rule;
}

}  // namespace

bool is_index_type(dtype type) noexcept {
  switch (type) {
    case dtype::i8:
    case dtype::i16:
    case dtype::i32:
    case dtype::i64:
    case dtype::u8:
    case dtype::u16:
    case dtype::u32:
    case dtype::u64: return true;
    default: return false;
  }
}

std::optional<index_rule> index_rule_of(const composite_info& whole, std::string_view part,
                                        const tensor_info& tensor, std::uint64_t values) {
  if (!is_index_type(tensor.dtype)) return std::nullopt;
  auto rule = rule_of(whole, part, tensor.shape, values);
  if (rule) rule->type = tensor.dtype;
  return rule;
}

result<void> index_checker::take_one(std::uint64_t value) {
  const std::uint64_t position = position_++;
  if (!rule_.bounds.empty()) {
    const auto dimension = static_cast<std::size_t>(position / rule_.run % rule_.bounds.size());
    if (value < rule_.bounds[dimension]) return {};
    return wrong("element " + grouped(position) + " is " + grouped(value) +
                 ", expected less than " + grouped(rule_.bounds[dimension]));
  }
  if (position == 0 && value != 0)
    return wrong("the first element is " + grouped(value) + ", expected 0");
  if (value < previous_) {
    return wrong("element " + grouped(position) + " is " + grouped(value) + ", expected at least " +
                 grouped(previous_));
  }
  previous_ = value;
  return {};
}

template <class T>
result<void> index_checker::take_all(std::span<const std::byte> bytes) {
  for (; bytes.size() >= sizeof(T); bytes = bytes.subspan(sizeof(T))) {
    const auto bits = little_endian<std::make_unsigned_t<T>>(bytes.first(sizeof(T)));
    const T value = static_cast<T>(bits);
    if (std::is_signed_v<T> && value < T{0}) {
      return wrong("element " + grouped(position_) + " is " + std::to_string(value));
    }
    if (auto status = take_one(static_cast<std::uint64_t>(value)); !status) return status;
  }
  return {};
}

result<void> index_checker::take(std::span<const std::byte> bytes) {
  switch (rule_.type) {
    case dtype::i8: return take_all<std::int8_t>(bytes);
    case dtype::u8: return take_all<std::uint8_t>(bytes);
    case dtype::i16: return take_all<std::int16_t>(bytes);
    case dtype::u16: return take_all<std::uint16_t>(bytes);
    case dtype::i32: return take_all<std::int32_t>(bytes);
    case dtype::u32: return take_all<std::uint32_t>(bytes);
    case dtype::i64: return take_all<std::int64_t>(bytes);
    default: return take_all<std::uint64_t>(bytes);
  }
}

result<void> index_checker::finish() const {
  if (!rule_.bounds.empty() || previous_ == rule_.last) return {};
  return wrong("the last element is " + grouped(previous_) + ", but there are " +
               grouped(rule_.last) + " values");
}

}  // namespace ringload::inline v0
