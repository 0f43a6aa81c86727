// SPDX-License-Identifier: Apache-2.0
#pragma once

// Writes CBOR (RFC 8949) as .zt files require: lengths are definite, and numbers have the shortest
// encoding. If the keys of a map must be sorted, the caller must write the keys in sorted order.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ringload::inline v0 {

class cbor_writer {
 public:
  explicit cbor_writer(std::string& out) noexcept : out_(out) {}

  // After map() or array(), the caller must write this number of pairs or items.
  void map(std::uint64_t pairs);
  void array(std::uint64_t items);

  void text(std::string_view value);
  void bytes(std::span<const std::byte> value);
  void unsigned_integer(std::uint64_t value);
  void integer(std::int64_t value);
  // Uses the fewest bits (16, 32 or 64) that represent the value exactly. A NaN becomes a quiet
  // NaN.
  void floating(double value);
  void boolean(bool value);
  void null();
  void encoded(std::string_view value) { out_ += value; }

 private:
  void head(unsigned major, std::uint64_t argument);
  void big_endian(std::uint64_t value, unsigned bytes);

  std::string& out_;
};

}  // namespace ringload::inline v0
