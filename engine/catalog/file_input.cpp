// SPDX-License-Identifier: Apache-2.0

#include "catalog/file_input.hpp"

#include <algorithm>
#include <utility>

namespace ringload::inline v0 {

bool file_input::in_window(std::uint64_t offset, std::size_t count) const noexcept {
  const std::uint64_t window_end = window_begin_ + window_.size();
  return offset >= window_begin_ && offset <= window_end && count <= window_end - offset;
}

result<void> file_input::check(std::uint64_t offset, std::size_t count) const {
  if (offset <= file_.bytes && count <= file_.bytes - offset) return {};
  return fault{errc::truncated_file, "byte " + grouped(offset),
               grouped(count) + " bytes were expected, the file ends at " + grouped(file_.bytes)};
}

result<void> file_input::read_into(std::uint64_t offset, std::span<std::byte> into) {
  if (in_window(offset, into.size())) return input::read_into(offset, into);
  if (auto status = check(offset, into.size()); !status) return status.error();
  bytes_read_ += into.size();
  return read_bytes_into(file_, offset, into);
}

result<std::span<const std::byte>> file_input::read(std::uint64_t offset, std::size_t count) {
  const std::uint64_t window_end = window_begin_ + window_.size();
  if (!in_window(offset, count)) {
    if (auto status = check(offset, count); !status) return status.error();
    const bool is_forward = offset >= window_begin_ && offset <= window_end + window_bytes_max;
    next_bytes_ =
        is_forward ? std::clamp(next_bytes_ * 2, first_bytes_, window_bytes_max) : first_bytes_;
    const std::uint64_t left = file_.bytes - offset;
    std::vector<std::byte>().swap(window_);  // Frees the old window before the next read.
    auto content = read_bytes(
        file_, offset,
        static_cast<std::size_t>(std::min<std::uint64_t>(std::max(next_bytes_, count), left)));
    if (!content) return content.error();
    bytes_read_ += content->size();
    window_ = std::move(*content);
    window_begin_ = offset;
  }
  return std::span<const std::byte>(window_).subspan(
      static_cast<std::size_t>(offset - window_begin_), count);
}

}  // namespace ringload::inline v0
