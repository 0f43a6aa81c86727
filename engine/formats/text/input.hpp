// SPDX-License-Identifier: Apache-2.0
#pragma once

// The interface through which parsers read a file, a few bytes at a time. Only requested bytes are
// read: a directory at the end of a file of 100 GB costs no more than its own size.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/fault.hpp"

namespace ringload::inline v0 {

class input {
 public:
  virtual ~input() = default;

  // The size of the file, which must not change.
  virtual std::uint64_t bytes() const noexcept = 0;

  // Returns exactly `count` bytes, valid until the next call. Past the end of the file:
  // errc::truncated_file. The parser must bound `count`.
  virtual result<std::span<const std::byte>> read(std::uint64_t offset, std::size_t count) = 0;

  // Reads the bytes into the caller's memory. No other copy is kept.
  virtual result<void> read_into(std::uint64_t offset, std::span<std::byte> into) {
    auto found = read(offset, into.size());
    if (!found) return found.error();
    std::ranges::copy(*found, into.begin());
    return {};
  }
};

// A file in memory.
class memory_input final : public input {
 public:
  explicit memory_input(std::span<const std::byte> content) noexcept : content_(content) {}

  std::uint64_t bytes() const noexcept override { return content_.size(); }
  result<std::span<const std::byte>> read(std::uint64_t offset, std::size_t count) override {
    if (offset > content_.size() || count > content_.size() - offset) {
      return fault{
          errc::truncated_file, "byte " + grouped(offset),
          grouped(count) + " bytes were expected, the file ends at " + grouped(content_.size())};
    }
    return content_.subspan(offset, count);
  }

 private:
  const std::span<const std::byte> content_;
};

}  // namespace ringload::inline v0
