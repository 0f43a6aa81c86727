// SPDX-License-Identifier: Apache-2.0
#pragma once

// The interface through which parsers read a file, a few bytes at a time. A parser requests only
// the needed bytes. For example, if a file of 100 GB has a directory at its end, only the directory
// and bytes near it are read.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/fault.hpp"

namespace ringload::inline v0 {

class input {
 public:
  virtual ~input() = default;

  virtual std::uint64_t bytes() const noexcept = 0;

  // Returns exactly `count` bytes, which are valid until the next call. Returns
  // errc::truncated_file if these bytes end past the end of the file. The parser must limit
  // `count`, because all `count` bytes are in memory at the same time.
  virtual result<std::span<const std::byte>> read(std::uint64_t offset, std::size_t count) = 0;

  virtual result<void> read_into(std::uint64_t offset, std::span<std::byte> into) {
    auto content = read(offset, into.size());
    if (!content) return content.error();
    std::ranges::copy(*content, into.begin());
    return {};
  }
};

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

// A range of another input.
class input_range final : public input {
 public:
  // The range must be inside `whole`. `whole` must outlive this object.
  input_range(input& whole, std::uint64_t begin, std::uint64_t bytes) noexcept
      : whole_(whole), begin_(begin), bytes_(bytes) {}

  std::uint64_t bytes() const noexcept override { return bytes_; }
  result<std::span<const std::byte>> read(std::uint64_t offset, std::size_t count) override {
    if (auto status = check(offset, count); !status) return status.error();
    return whole_.read(begin_ + offset, count);
  }
  result<void> read_into(std::uint64_t offset, std::span<std::byte> into) override {
    if (auto status = check(offset, into.size()); !status) return status.error();
    return whole_.read_into(begin_ + offset, into);
  }

 private:
  result<void> check(std::uint64_t offset, std::size_t count) const {
    if (offset <= bytes_ && count <= bytes_ - offset) return {};
    return fault{errc::truncated_file, "byte " + grouped(offset),
                 grouped(count) + " bytes were expected, the item ends at " + grouped(bytes_)};
  }

  input& whole_;
  const std::uint64_t begin_;
  const std::uint64_t bytes_;
};

}  // namespace ringload::inline v0
