// SPDX-License-Identifier: Apache-2.0
#pragma once

// Converts numbers, texts and lists to bytes for another process, and back. The classes `packer`
// and `unpacker` have the same functions, so that one template works with both.
//
// An unpacker checks every value. After the first error, the unpacker returns only zeros and empty
// values, and is_complete() returns false. An unpacked list needs memory in proportion to the
// received bytes, even if the received count is wrong.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace ringload::inline v0 {

inline constexpr std::uint64_t any_number = std::numeric_limits<std::uint64_t>::max();

template <class T>
concept packed_number = std::unsigned_integral<T> || std::is_enum_v<T>;

// The second parameter of number() and text() is a limit. Only an unpacker checks the limit.
class packer {
 public:
  template <packed_number T>
  void number(const T& value, std::uint64_t = any_number) {
    const auto whole = static_cast<std::uint64_t>(value);
    const std::size_t begin = out_.size();
    out_.resize(begin + sizeof whole);
    for (std::size_t i = 0; i < sizeof whole; ++i) out_[begin + i] = std::byte(whole >> 8 * i);
  }
  void text(const std::string& value, std::size_t = ~std::size_t{0}) {
    number(std::uint64_t{value.size()});
    append(std::as_bytes(std::span(value)));
  }
  void bytes(const std::vector<std::byte>& value) {
    number(std::uint64_t{value.size()});
    append(value);
  }
  template <class T, class Convert>
  void list(const std::vector<T>& items, const Convert& convert) {
    number(std::uint64_t{items.size()});
    for (const T& item : items) convert(*this, item);
  }

  std::vector<std::byte> take() noexcept { return std::move(out_); }

 private:
  void append(std::span<const std::byte> added) {
    out_.insert(out_.end(), added.begin(), added.end());
  }

  std::vector<std::byte> out_;
};

class unpacker {
 public:
  explicit unpacker(std::span<const std::byte> packed) noexcept : left_(packed) {}

  // Fails if the number is greater than `value_max`.
  template <packed_number T>
  void number(T& value, std::uint64_t value_max = any_number) noexcept {
    std::uint64_t whole = 0;
    if (left_.size() < sizeof whole) return fail(value);
    for (std::size_t i = sizeof whole; i-- > 0;) {
      whole = whole << 8U | std::to_integer<std::uint64_t>(left_[i]);
    }
    left_ = left_.subspan(sizeof whole);
    if constexpr (std::unsigned_integral<T>) {
      if (whole > std::numeric_limits<T>::max()) return fail(value);
    }
    if (whole > value_max) return fail(value);
    value = static_cast<T>(whole);
  }
  // Fails if the text has more than `bytes_max` bytes.
  void text(std::string& value, std::size_t bytes_max = ~std::size_t{0}) {
    std::uint64_t size = 0;
    number(size, bytes_max);
    if (size > left_.size()) return fail(value);
    value.assign(reinterpret_cast<const char*>(left_.data()), static_cast<std::size_t>(size));
    left_ = left_.subspan(static_cast<std::size_t>(size));
  }
  void bytes(std::vector<std::byte>& value) {
    std::uint64_t size = 0;
    number(size);
    if (size > left_.size()) return fail(value);
    const auto content = left_.first(static_cast<std::size_t>(size));
    value.assign(content.begin(), content.end());
    left_ = left_.subspan(content.size());
  }
  template <class T, class Convert>
  void list(std::vector<T>& items, const Convert& convert) {
    std::uint64_t count = 0;
    number(count);
    // Each element contains at least one number, so `count` cannot be greater than the number of
    // remaining 8-byte words.
    if (count > left_.size() / sizeof(std::uint64_t)) return fail(items);
    for (std::uint64_t i = 0; i < count && !failed_; ++i) convert(*this, items.emplace_back());
  }

  bool failed() const noexcept { return failed_; }
  // Marks the data as invalid. Used if a value violates a rule of the caller.
  void refuse() noexcept {
    failed_ = true;
    left_ = {};
  }
  // Returns true if there was no error and all bytes were used.
  bool is_complete() const noexcept { return !failed_ && left_.empty(); }

 private:
  template <class T>
  void fail(T& value) noexcept {
    failed_ = true;
    left_ = {};
    value = T();
  }

  std::span<const std::byte> left_;
  bool failed_ = false;
};

}  // namespace ringload::inline v0
