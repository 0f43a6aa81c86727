// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reads a file for a parser. Keeps the bytes of the last read, and some of the following bytes, in
// a window. While a parser reads forward, the window grows. After a jump, the window has its first
// size again. Therefore 100,000 headers that are close together need only a few hundred reads. A
// small header between gigabytes of tensor data in a local file needs only one read of 4 KiB.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "catalog/source_file.hpp"
#include "formats/text/input.hpp"

namespace ringload::inline v0 {

class file_input final : public input {
 public:
  // The file must outlive the input.
  explicit file_input(const source_file& file) noexcept
      : file_(file),
        first_bytes_(file.object || file.direct ? window_bytes_max : window_bytes_min) {}

  std::uint64_t bytes() const noexcept override { return file_.bytes; }
  result<std::span<const std::byte>> read(std::uint64_t offset, std::size_t count) override;
  result<void> read_into(std::uint64_t offset, std::span<std::byte> into) override;

  // Returns the number of bytes that were read from the file so far.
  std::uint64_t bytes_read() const noexcept { return bytes_read_; }

 private:
  bool in_window(std::uint64_t offset, std::size_t count) const noexcept;
  result<void> check(std::uint64_t offset, std::size_t count) const;

  const source_file& file_;
  std::vector<std::byte> window_;
  std::uint64_t window_begin_ = 0;
  // Size of the window at the beginning and after a jump: `window_bytes_max` for an object of a
  // store and for a file that is read with O_DIRECT, `window_bytes_min` for other files.
  const std::size_t first_bytes_;
  std::size_t next_bytes_ = 0;
  std::uint64_t bytes_read_ = 0;

  static constexpr std::size_t window_bytes_min = std::size_t{4} << 10;
  static constexpr std::size_t window_bytes_max = std::size_t{256} << 10;
};

}  // namespace ringload::inline v0
