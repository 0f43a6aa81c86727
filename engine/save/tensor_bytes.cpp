// SPDX-License-Identifier: Apache-2.0

#include "save/tensor_bytes.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/checked.hpp"
#include "base/numeric/convert.hpp"
#include "base/printable.hpp"

namespace ringload::inline v0::detail {

namespace {

// Size of one conversion step. A buffer of this size stays in the processor's cache.
constexpr std::size_t buffer_bytes = 16 * 1024;
constexpr std::uint64_t fetched_at_once = std::uint64_t{1} << 20;

std::uint32_t element_bytes(dtype type) noexcept {
  return bits(type) % 8 == 0 ? bits(type) / 8 : 1;
}

fault invalid(const tensor_ref& tensor, std::string cause) {
  return {errc::invalid_tensor, tensor_place(tensor.name), std::move(cause)};
}

// The memory that a tensor covers, relative to its element (0, 0, ...).
struct reach {
  std::uint64_t before = 0;  // Bytes before element (0, 0, ...).
  std::uint64_t after = 0;   // Bytes from element (0, 0, ...) to the end of the last element.
};

// Returns an empty optional if an element is outside the address space.
std::optional<reach> reach_of(const tensor_ref& tensor, std::uint64_t bytes) {
  if (bytes == 0) return reach();
  if (tensor.strides.empty()) return reach{0, bytes};
  reach out = {0, element_bytes(tensor.dtype)};
  for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
    const std::int64_t stride = tensor.strides[d];
    const auto distance =
        stride < 0 ? 0 - static_cast<std::uint64_t>(stride) : static_cast<std::uint64_t>(stride);
    const auto step = checked_multiply(distance, element_bytes(tensor.dtype));
    if (!step || *step > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return std::nullopt;
    }
    const auto offset_max = checked_multiply(*step, tensor.shape[d] - 1);
    std::uint64_t& side = stride < 0 ? out.before : out.after;
    const auto sum = offset_max ? checked_add(side, *offset_max) : std::nullopt;
    if (!sum) return std::nullopt;
    side = *sum;
  }
  const auto address = reinterpret_cast<std::uintptr_t>(tensor.data);
  if (out.before > address || !checked_add(address, out.after)) return std::nullopt;
  return out;
}

std::optional<std::uint64_t> dense_bytes(const tensor_ref& tensor, dtype type) {
  std::uint64_t all_bits = bits(type);
  for (const std::uint64_t size : tensor.shape) {
    const auto product = checked_multiply(all_bits, size);
    if (!product) return std::nullopt;
    all_bits = *product;
  }
  return all_bits % 8 == 0 ? std::optional(all_bits / 8) : std::nullopt;
}

std::vector<std::int64_t> stride_bytes(const tensor_ref& tensor) {
  std::vector<std::int64_t> out(tensor.shape.size());
  std::uint64_t dense = element_bytes(tensor.dtype);
  for (std::size_t d = out.size(); d-- > 0;) {
    out[d] = tensor.strides.empty() ? static_cast<std::int64_t>(dense)
                                    : tensor.strides[d] * std::int64_t{element_bytes(tensor.dtype)};
    dense *= tensor.shape[d];
  }
  return out;
}

}  // namespace

result<std::uint64_t> stored_bytes(const tensor_ref& tensor, dtype stored_type) {
  if (stored_type != tensor.dtype && !fill_converts(tensor.dtype, stored_type)) {
    return fault{errc::unsupported_dtype, tensor_place(tensor.name),
                 std::string(name(tensor.dtype)) + " cannot be converted to " +
                     std::string(name(stored_type))};
  }
  const auto bytes = dense_bytes(tensor, tensor.dtype);
  const auto stored = dense_bytes(tensor, stored_type);
  if (!bytes || !stored) {
    return invalid(tensor, "its size must be a whole number of bytes that fits in 64 bits");
  }
  if (!tensor.strides.empty() && tensor.strides.size() != tensor.shape.size()) {
    return invalid(tensor, "it has " + grouped(tensor.shape.size()) + " dimensions but " +
                               grouped(tensor.strides.size()) + " strides, expected equal numbers");
  }
  if (!tensor.strides.empty() && bits(tensor.dtype) % 8 != 0) {
    return invalid(tensor, "elements of less than a byte cannot have strides");
  }
  if (*bytes > 0 && tensor.data == nullptr) return invalid(tensor, "its address is null");
  const auto reached = reach_of(tensor, *bytes);
  if (!reached) return invalid(tensor, "its strides lead outside the address space");
  if (tensor.bytes != 0 && reached->before + reached->after > tensor.bytes) {
    return invalid(tensor, "its shape and strides cover " +
                               grouped(reached->before + reached->after) +
                               " bytes, but its memory has " + grouped(tensor.bytes));
  }
  return *stored;
}

tensor_bytes::tensor_bytes(tensor_ref view, dtype stored_type, backend& target, unsigned passes)
    : view_(std::move(view)), target_(target), left_to_read_(0) {
  bytes_ = dense_bytes(view_, stored_type).value_or(0);
  left_to_read_ = passes * bytes_;
  if (stored_type != view_.dtype)
    conversion_ = {*element_kind_of(view_.dtype), *element_kind_of(stored_type)};
  from_bytes_ = element_bytes(view_.dtype);
  to_bytes_ = element_bytes(stored_type);
  const auto reached = reach_of(view_, dense_bytes(view_, view_.dtype).value_or(0));
  if (reached) {
    spanned_before_ = reached->before;
    spanned_bytes_ = reached->before + reached->after;
  }
  if (bits(view_.dtype) % 8 != 0) {
    elements_ = strided_elements(1, std::array{bytes_}, std::array{std::int64_t{1}});
  } else if (bytes_ > 0) {
    elements_ = strided_elements(from_bytes_, view_.shape, stride_bytes(view_));
  }
}

bool tensor_bytes::same_as(const tensor_bytes& source) const noexcept {
  const tensor_ref& left = view_;
  const tensor_ref& right = source.view_;
  if (left.data != right.data || left.device != right.device || left.dtype != right.dtype)
    return false;
  if (conversion_ != source.conversion_ || bytes_ != source.bytes_ || bytes_ == 0) return false;
  if (elements_.dense() && source.elements_.dense()) return true;
  return left.shape == right.shape && left.strides == right.strides;
}

const std::byte* tensor_bytes::memory_at(std::uint64_t offset) const noexcept {
  if (!on_host() || conversion_.needed() || !elements_.dense()) return nullptr;
  return static_cast<const std::byte*>(view_.data) + offset;
}

result<void> tensor_bytes::fetch() {
  const std::lock_guard lock(mutex_);
  if (has_fetched_) return {};
  auto memory = mapping::make(spanned_bytes_, page_kind::transparent);
  if (!memory) return memory.error();
  const std::byte* const begin = static_cast<const std::byte*>(view_.data) - spanned_before_;
  const auto into = memory->span().first(static_cast<std::size_t>(spanned_bytes_));
  if (auto failed = populate(into)) return fault{failed, {}};
  if (auto copied = target_.copy_to_host(begin, into); !copied) return copied;
  fetched_ = std::move(*memory);
  has_fetched_ = true;
  return {};
}

void tensor_bytes::count_read(std::uint64_t bytes) noexcept {
  if (left_to_read_.fetch_sub(bytes) != bytes || !has_fetched_) return;
  const std::lock_guard lock(mutex_);
  fetched_ = mapping();
  has_fetched_ = false;
}

result<void> tensor_bytes::gather(std::uint64_t first, std::uint64_t count, std::byte* into) const {
  const std::byte* data = static_cast<const std::byte*>(view_.data);
  if (!on_host() && elements_.dense()) {
    return target_.copy_to_host(data + first * from_bytes_,
                                {into, static_cast<std::size_t>(count * from_bytes_)});
  }
  if (!on_host()) data = fetched_.data() + spanned_before_;
  elements_.gather(data, first, count, into);
  return {};
}

result<void> tensor_bytes::read_converted(std::uint64_t first, std::uint64_t count,
                                          std::byte* into) const {
  const bool in_place = on_host() && elements_.dense();
  if (in_place) {
    const std::byte* const data = static_cast<const std::byte*>(view_.data);
    convert(data + first * from_bytes_, into, static_cast<std::size_t>(count), conversion_);
    return {};
  }
  // Dense tensors on a device are copied in larger steps, because each copy to the host has a fixed
  // cost.
  const bool is_dense_on_device = !on_host() && elements_.dense();
  std::vector<std::byte> buffer(is_dense_on_device ? fetched_at_once : buffer_bytes);
  const std::uint64_t step = buffer.size() / from_bytes_;
  for (std::uint64_t position = 0; position < count; position += step) {
    const std::uint64_t elements = std::min(step, count - position);
    if (auto status = gather(first + position, elements, buffer.data()); !status) return status;
    convert(buffer.data(), into + position * to_bytes_, static_cast<std::size_t>(elements),
            conversion_);
  }
  return {};
}

result<void> tensor_bytes::read_elements(std::uint64_t first, std::uint64_t count,
                                         std::byte* into) const {
  if (count == 0) return {};
  return conversion_.needed() ? read_converted(first, count, into) : gather(first, count, into);
}

result<void> tensor_bytes::read(std::uint64_t offset, std::span<std::byte> into) {
  if (into.empty()) return {};
  if (!on_host() && !elements_.dense() && !has_fetched_) {
    if (auto status = fetch(); !status) return status;
  }
  const std::uint64_t bytes = into.size();
  // Dense bytes that are not converted can be read from any offset.
  if (elements_.dense() && !conversion_.needed()) {
    const std::byte* const begin = static_cast<const std::byte*>(view_.data) + offset;
    if (!on_host()) return target_.copy_to_host(begin, into);
    std::memcpy(into.data(), begin, into.size());
    return {};
  }
  // The range may begin or end inside an element. An incomplete element is read separately, and
  // only its requested bytes are copied.
  std::array<std::byte, 16> element = {};
  while (!into.empty() && offset % to_bytes_ != 0) {
    if (auto status = read_elements(offset / to_bytes_, 1, element.data()); !status) return status;
    const auto begin = static_cast<std::size_t>(offset % to_bytes_);
    const std::size_t part = std::min<std::size_t>(to_bytes_ - begin, into.size());
    std::memcpy(into.data(), element.data() + begin, part);
    into = into.subspan(part);
    offset += part;
  }
  const std::uint64_t whole = into.size() / to_bytes_;
  if (auto status = read_elements(offset / to_bytes_, whole, into.data()); !status) return status;
  into = into.subspan(static_cast<std::size_t>(whole * to_bytes_));
  if (!into.empty()) {
    if (auto status = read_elements(offset / to_bytes_ + whole, 1, element.data()); !status)
      return status;
    std::memcpy(into.data(), element.data(), into.size());
  }
  count_read(bytes);
  return {};
}

}  // namespace ringload::inline v0::detail
