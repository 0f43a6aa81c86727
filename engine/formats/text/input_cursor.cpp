// SPDX-License-Identifier: Apache-2.0

#include "formats/text/input_cursor.hpp"

#include <algorithm>
#include <utility>

namespace ringload::inline v0 {

bool input_cursor::refill(std::size_t count) {
  if (failed_) return false;
  if (count > left()) {
    return fail(errc::header_outside_file, "expected " + grouped(count) + " more bytes, but only " +
                                               grouped(left()) + " remain");
  }
  // The size of reads doubles until a skip or a seek leaves the window.
  const std::uint64_t begin = position();
  const std::uint64_t preferred_bytes = std::max<std::uint64_t>(count, next_bytes_);
  const auto read_bytes = static_cast<std::size_t>(std::min(preferred_bytes, left()));
  auto read = from_.read(begin, read_bytes);
  if (!read) return fail(read.error());
  next_bytes_ = std::min(next_bytes_ * 2, window_bytes_max);
  window_ = *read;
  window_begin_ = begin;
  window_offset_ = 0;
  return true;
}

bool input_cursor::skip(std::uint64_t count) {
  if (failed_) return false;
  if (count > left()) {
    return fail(errc::header_outside_file, "expected " + grouped(count) + " more bytes, but only " +
                                               grouped(left()) + " remain");
  }
  if (count <= window_.size() - window_offset_) {
    window_offset_ += static_cast<std::size_t>(count);
    return true;
  }
  window_begin_ = position() + count;
  window_ = {};
  window_offset_ = 0;
  next_bytes_ = window_bytes_min;
  return true;
}

void input_cursor::seek(std::uint64_t byte) noexcept {
  if (byte >= window_begin_ && byte - window_begin_ <= window_.size()) {
    window_offset_ = static_cast<std::size_t>(byte - window_begin_);
    return;
  }
  window_begin_ = byte;
  window_ = {};
  window_offset_ = 0;
  next_bytes_ = window_bytes_min;
}

bool input_cursor::fail(fault failure) {
  if (!failed_) fault_ = std::move(failure);
  failed_ = true;
  window_ = {};  // Empties the window, so that later reads fail.
  window_begin_ += window_offset_;
  window_offset_ = 0;
  return false;
}

}  // namespace ringload::inline v0
