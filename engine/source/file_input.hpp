// SPDX-License-Identifier: Apache-2.0
#pragma once

// An open file as parsers see it. What they ask for is read through one window, which grows while
// they go on from where they were and is small again where they jump: 100,000 headers that stand
// close together cost a few hundred reads, and a few headers between gigabytes cost 4 KiB each.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "formats/input.hpp"
#include "source/regular_file.hpp"

namespace ringload::inline v0 {

class file_input final : public input {
 public:
  // The file outlives this.
  explicit file_input(const regular_file& from) noexcept : from_(from) {}

  std::uint64_t bytes() const noexcept override { return from_.bytes; }
  result<std::span<const std::byte>> read(std::uint64_t offset, std::size_t count) override;
  result<void> read_into(std::uint64_t offset, std::span<std::byte> into) override;

 private:
  bool in_window(std::uint64_t offset, std::size_t count) const noexcept;
  result<void> check(std::uint64_t offset, std::size_t count) const;

  const regular_file& from_;
  std::vector<std::byte> window_;
  std::uint64_t window_begin_ = 0;
  std::size_t next_bytes_ = window_bytes_min;

  static constexpr std::size_t window_bytes_min = std::size_t{4} << 10;
  static constexpr std::size_t window_bytes_max = std::size_t{256} << 10;
};

}  // namespace ringload::inline v0
