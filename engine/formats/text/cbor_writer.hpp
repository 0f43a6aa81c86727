// SPDX-License-Identifier: Apache-2.0
#pragma once

// Writes CBOR (RFC 8949) as .zt files have it: lengths are definite, and numbers as short as they
// can be. Keys are written in the order they come in: whoever wants them sorted sorts them.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ringload::inline v0 {

class cbor_writer {
 public:
  // What is written is appended to `out`.
  explicit cbor_writer(std::string& out) noexcept : out_(out) {}

  // That many pairs, or items, must follow.
  void map(std::uint64_t pairs);
  void array(std::uint64_t items);

  void text(std::string_view value);
  void bytes(std::span<const std::byte> value);
  void unsigned_integer(std::uint64_t value);
  void integer(std::int64_t value);
  // In 16 bits, 32 or 64: the fewest that keep the value. Every NaN becomes the quiet one.
  void floating(double value);
  void boolean(bool value);
  void null();
  // A value that is CBOR already.
  void encoded(std::string_view value) { out_ += value; }

 private:
  void head(unsigned major, std::uint64_t argument);
  void big_endian(std::uint64_t value, unsigned bytes);

  std::string& out_;
};

}  // namespace ringload::inline v0
