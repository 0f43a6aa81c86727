// SPDX-License-Identifier: Apache-2.0
#pragma once

// Walks messages of protocol buffers, field by field. What a caller does not look at is skipped
// without being read, so that a model of 2 GB costs what stands between its tensors: that is why
// this is our own, for a library wants the whole file in memory or mapped.

#include <cstdint>
#include <string>
#include <vector>

#include "formats/text/input_cursor.hpp"

namespace ringload::inline v0 {

enum class wire_type : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

inline constexpr unsigned varint_bytes_max = 10;

struct protobuf_field {
  std::uint32_t number = 0;
  wire_type type = wire_type::varint;
  std::uint64_t value = 0;   // Of a varint.
  std::uint64_t offset = 0;  // In the file: of its bytes.
  std::uint64_t bytes = 0;
  std::uint64_t begin = 0;  // In the file: of the field itself.
};

// Every function that returns bool returns false once something was wrong, and the cursor then says
// what.
class protobuf_reader {
 public:
  static constexpr std::size_t depth_max = 64;

  explicit protobuf_reader(input_cursor& in) noexcept : in_(in) {}

  // while (in.next(field)) { ... }, then ask failed(): the message ended or was broken.
  bool next(protobuf_field& out);

  // The fields of the message that next() gave as `field`; leave() goes on after it.
  bool enter(const protobuf_field& field);
  void leave() noexcept;

  // Begins the innermost message again.
  void rewind() noexcept;

  // The bytes of a field that next() gave.
  bool text(const protobuf_field& field, std::uint64_t bytes_max, std::string& out);

  // The base-128 integers of a field that next() gave, packed or a single one. False also where
  // `out` would get more than `count_max`.
  bool integers(const protobuf_field& field, std::size_t count_max,
                std::vector<std::uint64_t>& out);

  bool fail(const protobuf_field& at, errc code, std::string cause) {
    return in_.fail_at(at.begin, code, std::move(cause));
  }
  bool fail(fault what) { return in_.fail(std::move(what)); }
  bool failed() const noexcept { return in_.failed(); }

 private:
  struct message {
    std::uint64_t begin = 0;
    std::uint64_t end_outside = 0;  // Of the message around it.
  };

  bool varint(std::uint64_t& out);

  input_cursor& in_;
  std::uint64_t next_byte_ = 0;  // After the field that next() gave; 0: none yet.
  std::vector<message> open_;
};

}  // namespace ringload::inline v0
