// SPDX-License-Identifier: Apache-2.0
#pragma once

// A set of byte ranges: the parts of a partly received file that are present. The ranges are
// sorted, and neither touch nor overlap. Does no I/O.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ringload::inline v0::remote_http {

struct byte_range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  bool operator==(const byte_range&) const = default;
};

class range_set {
 public:
  explicit range_set(std::uint64_t file_bytes) noexcept : file_bytes_(file_bytes) {}

  // `range` must end within the file. If memory is exhausted, throws std::bad_alloc and changes
  // nothing.
  void add(byte_range range);
  bool has(byte_range range) const noexcept;
  // Returns the number of bytes before the first gap.
  std::uint64_t prefix_bytes() const noexcept;
  std::uint64_t missing_bytes() const noexcept { return file_bytes_ - bytes_; }
  bool is_complete() const noexcept { return bytes_ == file_bytes_; }
  std::size_t count() const noexcept { return ranges_.size(); }
  std::vector<byte_range> missing() const { return missing_in({0, file_bytes_}); }
  std::vector<byte_range> missing_in(byte_range part) const;

  // Returns one line with the file's size and one line for each range: "4096\n0 512\n1024 4096\n".
  std::string to_text() const;
  // Parses the result of to_text(). Returns an empty optional if the text is invalid, states
  // another size than `file_bytes`, or has more than `ranges_max` ranges.
  static std::optional<range_set> from_text(std::string_view text, std::uint64_t file_bytes);

  static constexpr std::size_t ranges_max = 100'000;

 private:
  std::uint64_t file_bytes_;
  std::uint64_t bytes_ = 0;
  std::map<std::uint64_t, std::uint64_t> ranges_;  // Maps the start of a range to its end.
};

}  // namespace ringload::inline v0::remote_http
