// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a parser reads a file through: any bytes of it, a few at a time. The parser holds no more of
// the file than it asked for, so a directory at the end of 100 GB costs what the directory does.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/fault.hpp"

namespace ringload::inline v0 {

class input {
 public:
  virtual ~input() = default;

  // The size of the file. Never changes.
  virtual std::uint64_t bytes() const noexcept = 0;

  // Exactly these bytes, valid until the next call. Past the end: errc::truncated_file. A parser
  // bounds `count` itself.
  virtual result<std::span<const std::byte>> read(std::uint64_t offset, std::size_t count) = 0;

  // The same into memory of the caller's, which then is the only place that holds them.
  virtual result<void> read_into(std::uint64_t offset, std::span<std::byte> into) {
    auto found = read(offset, into.size());
    if (!found) return found.error();
    std::ranges::copy(*found, into.begin());
    return {};
  }
};

// A file that is in memory.
class memory_input final : public input {
 public:
  explicit memory_input(std::span<const std::byte> all) noexcept : all_(all) {}

  std::uint64_t bytes() const noexcept override { return all_.size(); }
  result<std::span<const std::byte>> read(std::uint64_t offset, std::size_t count) override {
    if (offset > all_.size() || count > all_.size() - offset) {
      return fault{
          errc::truncated_file, "byte " + grouped(offset),
          grouped(count) + " bytes were expected, the file ends at " + grouped(all_.size())};
    }
    return all_.subspan(offset, count);
  }

 private:
  const std::span<const std::byte> all_;
};

}  // namespace ringload::inline v0
