// SPDX-License-Identifier: Apache-2.0
#include "source/file_input.hpp"

#include <algorithm>
#include <utility>

namespace ringload::inline v0 {

result<std::span<const std::byte>> file_input::read(std::uint64_t offset, std::size_t count) {
  const std::uint64_t window_end = window_begin_ + window_.size();
  const bool inside =
      offset >= window_begin_ && offset <= window_end && count <= window_end - offset;
  if (!inside) {
    if (offset > from_.bytes || count > from_.bytes - offset) {
      return fault{
          errc::truncated_file, "byte " + grouped(offset),
          grouped(count) + " bytes were expected, the file ends at " + grouped(from_.bytes)};
    }
    const bool goes_on = offset >= window_begin_ && offset <= window_end + window_bytes_max;
    next_bytes_ = goes_on ? std::min(next_bytes_ * 2, window_bytes_max) : window_bytes_min;
    const std::uint64_t left = from_.bytes - offset;
    auto more = read_bytes(
        from_, offset,
        static_cast<std::size_t>(std::min<std::uint64_t>(std::max(next_bytes_, count), left)));
    if (!more) return more.error();
    window_ = std::move(*more);
    window_begin_ = offset;
  }
  return std::span<const std::byte>(window_).subspan(
      static_cast<std::size_t>(offset - window_begin_), count);
}

}  // namespace ringload::inline v0
