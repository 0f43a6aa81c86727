// SPDX-License-Identifier: Apache-2.0
#include "formats/text/input_cursor.hpp"

#include <algorithm>
#include <utility>

namespace ringload::inline v0 {

bool input_cursor::refill(std::size_t count) {
  if (failed_) return false;
  if (count > left()) {
    return fail(errc::header_outside_file, grouped(count) + " bytes were expected, and " +
                                               grouped(left()) + " are left of what holds them");
  }
  // What is read in one go grows as long as nothing is skipped.
  const std::uint64_t begin = position();
  const std::uint64_t wanted = std::max<std::uint64_t>(count, next_bytes_);
  const auto some = static_cast<std::size_t>(std::min(wanted, left()));
  auto read = from_.read(begin, some);
  if (!read) return fail(read.error());
  next_bytes_ = std::min(next_bytes_ * 2, window_bytes_max);
  window_ = *read;
  window_begin_ = begin;
  at_ = 0;
  return true;
}

bool input_cursor::skip(std::uint64_t count) {
  if (failed_) return false;
  if (count > left()) {
    return fail(errc::header_outside_file, grouped(count) + " bytes are to be skipped, and " +
                                               grouped(left()) + " are left of what holds them");
  }
  if (count <= window_.size() - at_) {
    at_ += static_cast<std::size_t>(count);
    return true;
  }
  window_begin_ = position() + count;
  window_ = {};
  at_ = 0;
  next_bytes_ = window_bytes_min;
  return true;
}

void input_cursor::seek(std::uint64_t byte) noexcept {
  if (byte >= window_begin_ && byte - window_begin_ <= window_.size()) {
    at_ = static_cast<std::size_t>(byte - window_begin_);
    return;
  }
  window_begin_ = byte;
  window_ = {};
  at_ = 0;
  next_bytes_ = window_bytes_min;
}

bool input_cursor::fail(fault what) {
  if (!failed_) fault_ = std::move(what);
  failed_ = true;
  window_ = {};  // So that nothing more is handed out.
  window_begin_ += at_;
  at_ = 0;
  return false;
}

}  // namespace ringload::inline v0
