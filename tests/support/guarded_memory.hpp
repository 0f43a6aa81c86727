// SPDX-License-Identifier: Apache-2.0
#pragma once

// Memory for a fill, and its expected content: the bytes of the destinations, written element by
// element, and all other bytes unchanged.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <ringload/fill.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace ringload::testing {

class guarded_memory {
 public:
  static constexpr std::size_t guard_bytes = 8192;

  // Begins `misalignment` bytes after the start of a block.
  explicit guarded_memory(std::size_t bytes, std::size_t misalignment = 0)
      : inside_bytes_(bytes),
        bytes_(bytes + misalignment + 2 * guard_bytes),
        held_(static_cast<char*>(::operator new(bytes_, std::align_val_t(4096)))),
        begin_(held_.get() + guard_bytes + misalignment),
        expected_(bytes_, '\0') {
    char pattern[256];
    for (std::size_t i = 0; i < 256; ++i) pattern[i] = static_cast<char>(0xA5 ^ (i * 7));
    for (std::size_t at = 0; at < bytes_; at += 256) {
      std::memcpy(expected_.data() + at, pattern, std::min<std::size_t>(256, bytes_ - at));
    }
    std::memcpy(held_.get(), expected_.data(), bytes_);
  }

  char* data() const noexcept { return begin_; }

  // The expected byte at this distance from data().
  void expect(std::ptrdiff_t at, std::string_view bytes) {
    std::memcpy(expected_.data() + (begin_ - held_.get()) + at, bytes.data(), bytes.size());
  }

  // The whole memory, including the guards.
  bool as_expected() const { return std::memcmp(held_.get(), expected_.data(), bytes_) == 0; }

  // Only the bytes before data() and after its end.
  bool guards_are_whole() const {
    const auto before = static_cast<std::size_t>(begin_ - held_.get());
    const std::size_t after = before + inside_bytes_;
    return std::memcmp(held_.get(), expected_.data(), before) == 0 &&
           std::memcmp(held_.get() + after, expected_.data() + after, bytes_ - after) == 0;
  }

 private:
  struct freed {
    void operator()(char* p) const noexcept { ::operator delete(p, std::align_val_t(4096)); }
  };

  std::size_t inside_bytes_;
  std::size_t bytes_;
  std::unique_ptr<char, freed> held_;
  char* begin_;
  std::string expected_;
};

// Writes a row-major tensor of `source_shape` to the destination's elements, one by one, broadcast
// by PyTorch's rule. `data` is the address of element 0 of the destination, in `in`.
inline void expect_elements(guarded_memory& in, const destination& one, std::string_view source,
                            const std::vector<std::uint64_t>& source_shape) {
  const std::size_t width = bits(one.dtype) / 8;
  std::vector<std::int64_t> strides = one.strides;
  if (strides.empty()) {
    strides.assign(one.shape.size(), 1);
    for (std::size_t d = one.shape.size(); d-- > 1;) {
      strides[d - 1] = strides[d] * static_cast<std::int64_t>(one.shape[d]);
    }
  }
  for (const std::uint64_t size : one.shape) {
    if (size == 0) return;
  }
  // Uses pointers, because the operators of vectors take most of the time in a build with a
  // sanitizer.
  const std::size_t dimensions = one.shape.size();
  const std::size_t in_front = dimensions - source_shape.size();
  const std::uint64_t* const shape = one.shape.data();
  const std::uint64_t* const source_sizes = source_shape.data();
  const std::int64_t* const stride = strides.data();
  const std::ptrdiff_t first = static_cast<const char*>(one.data) - in.data();
  std::vector<std::uint64_t> index(dimensions);
  std::uint64_t* const at = index.data();
  for (;;) {
    std::uint64_t from = 0;
    std::int64_t to = 0;
    for (std::size_t d = 0; d < dimensions; ++d) {
      to += static_cast<std::int64_t>(at[d]) * stride[d];
      if (d < in_front) continue;
      const std::uint64_t size = source_sizes[d - in_front];
      from = from * size + (size == 1 ? 0 : at[d]);
    }
    in.expect(first + to * static_cast<std::int64_t>(width), source.substr(from * width, width));
    std::size_t d = dimensions;
    while (d > 0 && ++at[d - 1] == shape[d - 1]) at[--d] = 0;
    if (d == 0) return;
  }
}

}  // namespace ringload::testing
