// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reads a binary header from front to back through a window of an input. What is skipped is not
// read, so that a header with gigabytes of data inside it costs what lies between them.

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

// Every function that returns bool returns false once something was wrong; the first fault stays.
class input_cursor {
 public:
  // The bytes [begin, end) of `from`, which must outlive this.
  input_cursor(input& from, std::uint64_t begin, std::uint64_t end) noexcept
      : from_(from), window_begin_(begin), end_(end) {}
  input_cursor(const input_cursor&) = delete;
  input_cursor& operator=(const input_cursor&) = delete;

  // The byte of the file that is read next, and how many there are from it on.
  std::uint64_t position() const noexcept { return window_begin_ + at_; }
  std::uint64_t left() const noexcept { return end_ - position(); }

  // Nothing is read past this byte; at most the end that it was made with. For parts within parts.
  std::uint64_t end() const noexcept { return end_; }
  void set_end(std::uint64_t end) noexcept { end_ = end; }

  // Valid until the next call. The caller bounds `count`.
  bool bytes(std::size_t count, std::span<const std::byte>& out) {
    if (count > window_.size() - at_ || count > left()) {
      if (!refill(count)) return false;
    }
    out = window_.subspan(at_, count);
    at_ += count;
    return true;
  }

  bool text(std::size_t count, std::string_view& out) {
    std::span<const std::byte> found;
    if (!bytes(count, found)) return false;
    out = {reinterpret_cast<const char*>(found.data()), found.size()};
    return true;
  }

  template <std::unsigned_integral T>
  bool number(T& out, std::endian order = std::endian::little) {
    std::span<const std::byte> found;
    if (!bytes(sizeof out, found)) return false;
    T value = 0;
    for (std::size_t i = 0; i < sizeof out; ++i) {
      const std::size_t place = order == std::endian::little ? i : sizeof out - 1 - i;
      value = static_cast<T>(value | static_cast<T>(std::to_integer<T>(found[i]) << (8 * place)));
    }
    out = value;
    return true;
  }

  bool skip(std::uint64_t count);

  // To a byte of the file before or after; bytes that are skipped are not read.
  void seek(std::uint64_t byte) noexcept;

  // Refuses what was read. Always false, for `return in.fail(...)`. `where` is the place in the
  // file, by default the byte that is read next.
  bool fail(errc code, std::string cause) { return fail_at(position(), code, std::move(cause)); }
  bool fail_at(std::uint64_t byte, errc code, std::string cause) {
    return fail({code, "byte " + grouped(byte), std::move(cause)});
  }
  bool fail(fault what);

  bool failed() const noexcept { return failed_; }
  const fault& error() const noexcept { return fault_; }

 private:
  bool refill(std::size_t count);

  input& from_;
  std::span<const std::byte> window_;  // From window_begin_ on.
  std::uint64_t window_begin_;
  std::size_t at_ = 0;  // In the window.
  std::size_t next_bytes_ = window_bytes_min;
  std::uint64_t end_;
  bool failed_ = false;
  fault fault_;

  static constexpr std::size_t window_bytes_min = std::size_t{4} << 10;
  static constexpr std::size_t window_bytes_max = std::size_t{256} << 10;
};

}  // namespace ringload::inline v0
