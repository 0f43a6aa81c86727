// SPDX-License-Identifier: Apache-2.0
#pragma once

// Files of binary formats, written by hand for a test.

#include <bit>
#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "formats/text/input.hpp"
#include "support/safetensors_text.hpp"

namespace ringload::testing {

template <std::unsigned_integral T>
std::string number_text(T value, std::endian order = std::endian::little) {
  std::string out(sizeof value, '\0');
  for (std::size_t i = 0; i < sizeof value; ++i) {
    const std::size_t place = order == std::endian::little ? i : sizeof value - 1 - i;
    out[place] = static_cast<char>(value >> (8 * i) & 0xFF);
  }
  return out;
}

// An input that counts the bytes that are read, and returns only the requested bytes.
class counting_input final : public input {
 public:
  explicit counting_input(std::string_view all) : whole_(bytes_of(all)) {}

  std::uint64_t bytes() const noexcept override { return whole_.bytes(); }
  result<std::span<const std::byte>> read(std::uint64_t offset, std::size_t count) override {
    bytes_read += count;
    largest = std::max<std::uint64_t>(largest, count);
    return whole_.read(offset, count);
  }

  std::uint64_t bytes_read = 0;
  std::uint64_t largest = 0;

 private:
  memory_input whole_;
};

// A file of any size that consists of a text and zeros. The zeros are not in memory.
class sparse_input final : public input {
 public:
  sparse_input(std::string begin, std::uint64_t bytes) : begin_(std::move(begin)), bytes_(bytes) {}

  std::uint64_t bytes() const noexcept override { return bytes_; }
  result<std::span<const std::byte>> read(std::uint64_t offset, std::size_t count) override {
    if (offset > bytes_ || count > bytes_ - offset) return fault{errc::truncated_file, "read"};
    window_.assign(count, '\0');
    if (offset < begin_.size()) begin_.copy(window_.data(), count, offset);
    return bytes_of(window_);
  }

 private:
  std::string begin_;
  std::string window_;
  std::uint64_t bytes_;
};

}  // namespace ringload::testing
