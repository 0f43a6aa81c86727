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

// Elements are converted so many bytes at a time, which stay in the processor's cache.
constexpr std::size_t room_bytes = 16 * 1024;
constexpr std::uint64_t fetched_at_once = std::uint64_t{1} << 20;

std::uint32_t element_bytes(dtype type) noexcept {
  return bits(type) % 8 == 0 ? bits(type) / 8 : 1;
}

fault invalid(const tensor_ref& one, std::string cause) {
  return {errc::invalid_tensor, tensor_place(one.name), std::move(cause)};
}

struct reach {
  std::uint64_t before = 0;  // Bytes in front of the element at index 0,
  std::uint64_t after = 0;   // and from its first byte to the end of the last.
};

// Empty where it leaves the address space.
std::optional<reach> reach_of(const tensor_ref& one, std::uint64_t bytes) {
  if (bytes == 0) return reach();
  if (one.strides.empty()) return reach{0, bytes};
  reach out = {0, element_bytes(one.dtype)};
  for (std::size_t d = 0; d < one.shape.size(); ++d) {
    const std::int64_t stride = one.strides[d];
    const auto distance =
        stride < 0 ? 0 - static_cast<std::uint64_t>(stride) : static_cast<std::uint64_t>(stride);
    const auto step = checked_multiply(distance, element_bytes(one.dtype));
    if (!step || *step > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return std::nullopt;
    }
    const auto far = checked_multiply(*step, one.shape[d] - 1);
    std::uint64_t& side = stride < 0 ? out.before : out.after;
    const auto sum = far ? checked_add(side, *far) : std::nullopt;
    if (!sum) return std::nullopt;
    side = *sum;
  }
  const auto address = reinterpret_cast<std::uintptr_t>(one.data);
  if (out.before > address || !checked_add(address, out.after)) return std::nullopt;
  return out;
}

std::optional<std::uint64_t> dense_bytes(const tensor_ref& one, dtype type) {
  std::uint64_t all_bits = bits(type);
  for (const std::uint64_t size : one.shape) {
    const auto product = checked_multiply(all_bits, size);
    if (!product) return std::nullopt;
    all_bits = *product;
  }
  return all_bits % 8 == 0 ? std::optional(all_bits / 8) : std::nullopt;
}

std::vector<std::int64_t> stride_bytes(const tensor_ref& one) {
  std::vector<std::int64_t> out(one.shape.size());
  std::uint64_t dense = element_bytes(one.dtype);
  for (std::size_t d = out.size(); d-- > 0;) {
    out[d] = one.strides.empty() ? static_cast<std::int64_t>(dense)
                                 : one.strides[d] * std::int64_t{element_bytes(one.dtype)};
    dense *= one.shape[d];
  }
  return out;
}

}  // namespace

result<std::uint64_t> stored_bytes(const tensor_ref& one, dtype as) {
  if (as != one.dtype && !fill_converts(one.dtype, as)) {
    return fault{errc::unsupported_dtype, tensor_place(one.name),
                 std::string(name(one.dtype)) + " is not converted to " + std::string(name(as))};
  }
  const auto bytes = dense_bytes(one, one.dtype);
  const auto stored = dense_bytes(one, as);
  if (!bytes || !stored) {
    return invalid(one, "its size is no whole number of bytes within 64 bits");
  }
  if (!one.strides.empty() && one.strides.size() != one.shape.size()) {
    return invalid(one, "it has " + grouped(one.shape.size()) + " dimensions and " +
                            grouped(one.strides.size()) + " strides");
  }
  if (!one.strides.empty() && bits(one.dtype) % 8 != 0) {
    return invalid(one, "elements of less than a byte cannot have strides");
  }
  if (*bytes > 0 && one.data == nullptr) return invalid(one, "it has no address");
  const auto reached = reach_of(one, *bytes);
  if (!reached) return invalid(one, "its strides leave the address space");
  if (one.bytes != 0 && reached->before + reached->after > one.bytes) {
    return invalid(one, "shape and strides take " + grouped(reached->before + reached->after) +
                            " bytes, and it has " + grouped(one.bytes));
  }
  return *stored;
}

tensor_bytes::tensor_bytes(tensor_ref view, dtype as, backend& target, unsigned passes)
    : view_(std::move(view)), target_(target), left_to_read_(0) {
  bytes_ = dense_bytes(view_, as).value_or(0);
  left_to_read_ = passes * bytes_;
  if (as != view_.dtype) as_ = {*element_kind_of(view_.dtype), *element_kind_of(as)};
  from_bytes_ = element_bytes(view_.dtype);
  to_bytes_ = element_bytes(as);
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

bool tensor_bytes::same_as(const tensor_bytes& other) const noexcept {
  const tensor_ref& mine = view_;
  const tensor_ref& its = other.view_;
  if (mine.data != its.data || mine.on != its.on || mine.dtype != its.dtype) return false;
  if (as_ != other.as_ || bytes_ != other.bytes_ || bytes_ == 0) return false;
  if (elements_.dense() && other.elements_.dense()) return true;
  return mine.shape == its.shape && mine.strides == its.strides;
}

const std::byte* tensor_bytes::at(std::uint64_t offset) const noexcept {
  if (!on_host() || as_.needed() || !elements_.dense()) return nullptr;
  return static_cast<const std::byte*>(view_.data) + offset;
}

result<void> tensor_bytes::fetch() {
  const std::lock_guard lock(mutex_);
  if (has_fetched_) return {};
  auto made = mapping::make(spanned_bytes_, page_kind::transparent);
  if (!made) return made.error();
  const std::byte* const from = static_cast<const std::byte*>(view_.data) - spanned_before_;
  const auto into = made->span().first(static_cast<std::size_t>(spanned_bytes_));
  if (auto failed = populate(into)) return fault{failed, {}};
  if (auto copied = target_.copy_to_host(from, into); !copied) return copied;
  fetched_ = std::move(*made);
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
    convert(data + first * from_bytes_, into, static_cast<std::size_t>(count), as_);
    return {};
  }
  // A device is asked for much at once.
  const bool apart = !on_host() && elements_.dense();
  std::vector<std::byte> room(apart ? fetched_at_once : room_bytes);
  const std::uint64_t step = room.size() / from_bytes_;
  for (std::uint64_t done = 0; done < count; done += step) {
    const std::uint64_t here = std::min(step, count - done);
    if (auto good = gather(first + done, here, room.data()); !good) return good;
    convert(room.data(), into + done * to_bytes_, static_cast<std::size_t>(here), as_);
  }
  return {};
}

result<void> tensor_bytes::read_elements(std::uint64_t first, std::uint64_t count,
                                         std::byte* into) const {
  if (count == 0) return {};
  return as_.needed() ? read_converted(first, count, into) : gather(first, count, into);
}

result<void> tensor_bytes::read(std::uint64_t offset, std::span<std::byte> into) {
  if (into.empty()) return {};
  if (!on_host() && !elements_.dense() && !has_fetched_) {
    if (auto good = fetch(); !good) return good;
  }
  const std::uint64_t bytes = into.size();
  // What is stored without change can be cut anywhere.
  if (elements_.dense() && !as_.needed()) {
    const std::byte* const from = static_cast<const std::byte*>(view_.data) + offset;
    if (!on_host()) return target_.copy_to_host(from, into);
    std::memcpy(into.data(), from, into.size());
    return {};
  }
  // An element that the piece begins or ends in is made apart, and a part of it taken.
  std::array<std::byte, 16> one = {};
  while (!into.empty() && offset % to_bytes_ != 0) {
    if (auto good = read_elements(offset / to_bytes_, 1, one.data()); !good) return good;
    const auto begin = static_cast<std::size_t>(offset % to_bytes_);
    const std::size_t part = std::min<std::size_t>(to_bytes_ - begin, into.size());
    std::memcpy(into.data(), one.data() + begin, part);
    into = into.subspan(part);
    offset += part;
  }
  const std::uint64_t whole = into.size() / to_bytes_;
  if (auto good = read_elements(offset / to_bytes_, whole, into.data()); !good) return good;
  into = into.subspan(static_cast<std::size_t>(whole * to_bytes_));
  if (!into.empty()) {
    if (auto good = read_elements(offset / to_bytes_ + whole, 1, one.data()); !good) return good;
    std::memcpy(into.data(), one.data(), into.size());
  }
  count_read(bytes);
  return {};
}

}  // namespace ringload::inline v0::detail
