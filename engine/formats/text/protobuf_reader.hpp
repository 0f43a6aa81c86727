// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reads messages of protocol buffers, field by field. Used for ONNX models. The reader does not
// read the bytes of unused fields, so the tensors in a model of 2 GB cost no time. No library is
// used, because the libraries require the whole file in memory or in a mapping.

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
  std::uint64_t value = 0;   // The value of a varint.
  std::uint64_t offset = 0;  // Position of the field's bytes in the file.
  std::uint64_t bytes = 0;
  std::uint64_t begin = 0;  // Position of the field, with its tag, in the file.
};

// Functions that return bool return false after a failure. After a failure, the cursor has the
// fault.
class protobuf_reader {
 public:
  static constexpr std::size_t depth_max = 64;

  explicit protobuf_reader(input_cursor& in) noexcept : in_(in) {}

  // Example: while (in.next(field)) { ... }. Afterwards, failed() is true if the message is
  // malformed, and false if the message has ended.
  bool next(protobuf_field& out);

  // enter() enters the message that next() has returned as `field`. After leave(), next() continues
  // after this message.
  bool enter(const protobuf_field& field);
  void leave() noexcept;

  // Moves back to the beginning of the innermost message.
  void rewind() noexcept;

  // Reads the bytes of a field that next() has returned.
  bool text(const protobuf_field& field, std::uint64_t bytes_max, std::string& out);

  // Appends the base-128 integers of a field that next() has returned. The field contains packed
  // integers or a single integer. Fails if `out` would have more than `count_max` integers.
  bool integers(const protobuf_field& field, std::size_t count_max,
                std::vector<std::uint64_t>& out);

  bool fail(const protobuf_field& field, errc code, std::string cause) {
    return in_.fail_at(field.begin, code, std::move(cause));
  }
  bool fail(fault failure) { return in_.fail(std::move(failure)); }
  bool failed() const noexcept { return in_.failed(); }

 private:
  struct message {
    std::uint64_t begin = 0;
    std::uint64_t end_outside = 0;  // End of the enclosing message.
  };

  bool read_varint(std::uint64_t& out);

  input_cursor& in_;
  // Position from which next() reads the next field. 0 before the first call.
  std::uint64_t next_byte_ = 0;
  std::vector<message> open_;
};

}  // namespace ringload::inline v0
