// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reads a binary header from start to end through a window of an input. Skipped bytes are not read,
// so data between the parts of a header costs no time.

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "base/fault.hpp"
#include "formats/text/input.hpp"

namespace ringload::inline v0 {

// Functions that return bool return false after a failure. Only the first fault is stored.
class input_cursor {
 public:
  // Reads the bytes [begin, end) of `from`. `from` must outlive the cursor.
  input_cursor(input& from, std::uint64_t begin, std::uint64_t end) noexcept
      : from_(from), window_begin_(begin), end_(end) {}
  input_cursor(const input_cursor&) = delete;
  input_cursor& operator=(const input_cursor&) = delete;

  // position() is the offset of the next byte in the file. left() is the number of bytes from
  // position() to end().
  std::uint64_t position() const noexcept { return window_begin_ + window_offset_; }
  std::uint64_t left() const noexcept { return end_ - position(); }

  // The cursor reads only bytes before end(). A caller may lower the end to read a nested message.
  // The new end must not exceed the end that was passed to the constructor.
  std::uint64_t end() const noexcept { return end_; }
  void set_end(std::uint64_t end) noexcept { end_ = end; }

  // `out` is valid until the next call. The caller must limit `count`, because all `count` bytes
  // are in memory at the same time.
  bool bytes(std::size_t count, std::span<const std::byte>& out) {
    if (count > window_.size() - window_offset_ || count > left()) {
      if (!refill(count)) return false;
    }
    out = window_.subspan(window_offset_, count);
    window_offset_ += count;
    return true;
  }

  bool text(std::size_t count, std::string_view& out) {
    std::span<const std::byte> content;
    if (!bytes(count, content)) return false;
    out = {reinterpret_cast<const char*>(content.data()), content.size()};
    return true;
  }

  template <std::unsigned_integral T>
  bool number(T& out, std::endian order = std::endian::little) {
    std::span<const std::byte> content;
    if (!bytes(sizeof out, content)) return false;
    T value = 0;
    for (std::size_t i = 0; i < sizeof out; ++i) {
      const std::size_t shift = order == std::endian::little ? i : sizeof out - 1 - i;
      value = static_cast<T>(value | static_cast<T>(std::to_integer<T>(content[i]) << (8 * shift)));
    }
    out = value;
    return true;
  }

  bool skip(std::uint64_t count);

  // Moves to another offset of the file, backwards or forwards. Skipped bytes are not read.
  void seek(std::uint64_t byte) noexcept;

  // fail() stores a fault at the position of the next byte. fail_at() stores a fault at the
  // position `byte`. Always returns false, so that callers can write `return in.fail(...)`.
  bool fail(errc code, std::string cause) { return fail_at(position(), code, std::move(cause)); }
  bool fail_at(std::uint64_t byte, errc code, std::string cause) {
    return fail({code, "byte " + grouped(byte), std::move(cause)});
  }
  bool fail(fault failure);

  bool failed() const noexcept { return failed_; }
  const fault& error() const noexcept { return fault_; }

 private:
  bool refill(std::size_t count);

  input& from_;
  std::span<const std::byte> window_;  // Bytes of the file from window_begin_ on.
  std::uint64_t window_begin_;
  std::size_t window_offset_ = 0;  // Index of the next byte in the window.
  std::size_t next_bytes_ = window_bytes_min;
  std::uint64_t end_;
  bool failed_ = false;
  fault fault_;

  static constexpr std::size_t window_bytes_min = std::size_t{4} << 10;
  static constexpr std::size_t window_bytes_max = std::size_t{256} << 10;
};

}  // namespace ringload::inline v0
