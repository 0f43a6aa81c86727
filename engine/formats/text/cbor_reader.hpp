// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reads CBOR (RFC 8949) from start to end. The caller requests the next value by its expected type.
// Used for .zt files and for attributes. The reader builds no tree. Before the reader allocates
// memory for a string, the reader checks that the input has enough bytes. No library is used,
// because the known libraries build a tree or do not report the position of an error.

#include <cstdint>
#include <string>
#include <vector>

#include "formats/text/input_cursor.hpp"

namespace ringload::inline v0 {

// Functions that return bool return false after a failure. After a failure, the cursor has the
// fault. Tags before a value are skipped, except the tag 2 of an integer that is stored as a byte
// string.
class cbor_reader {
 public:
  static constexpr std::size_t depth_max = 256;
  static constexpr std::uint64_t string_bytes_max = std::uint64_t{16} << 20;

  explicit cbor_reader(input_cursor& in) noexcept : in_(in) {}

  // Example: while (in.next_key(key)) { read the value }. Afterwards, failed() is true if the map
  // is malformed, and false if the map has ended.
  bool enter_map();
  bool next_key(std::string& key);
  bool enter_array();
  bool next_item();

  bool text(std::string& out);
  bool unsigned_integer(std::uint64_t& out);
  bool skip_value();

  // Reads the next value if the value is null or undefined. Otherwise returns false and reads
  // nothing.
  bool null();
  bool is_text();

  // Appends any value as JSON text. A byte string becomes hexadecimal digits. A key that is a
  // number, a boolean or null becomes text. Fails if a key is an array or a map. Also fails if
  // `out` has more than `bytes_max` bytes before a value is appended, so the last value may exceed
  // the limit.
  bool json(std::string& out, std::size_t bytes_max);

  bool failed() const noexcept { return in_.failed(); }
  std::uint64_t position() const noexcept { return in_.position(); }

 private:
  struct head {
    std::uint8_t major = 0;
    std::uint8_t info = 0;
    bool indefinite = false;
    std::uint64_t argument = 0;
    std::uint64_t begin = 0;
  };
  struct container {
    std::uint64_t left = 0;  // Number of items or pairs that are not yet read.
    bool indefinite = false;
    // Only skip_value() uses these members.
    bool is_map = false;
    bool follows_key = false;  // True if the last item was a key.
  };

  bool peek();
  bool read_head();
  void take() noexcept { peeked_ = false; }
  // A break ends a container without a stated size.
  bool is_break() const noexcept;
  bool unexpected(const char* expected);
  bool enter(std::uint8_t major, const char* expected);
  bool next(bool& more);
  bool string_of(std::uint8_t major, std::string& out);
  bool chunk(std::uint64_t bytes, std::string& out);
  bool big_number(std::uint64_t& out);
  bool json_scalar(std::string& out);
  bool json_container(std::string& out, std::size_t bytes_max);
  bool json_key(std::string& out, std::size_t bytes_max);

  input_cursor& in_;
  head head_;
  bool peeked_ = false;
  std::uint64_t tag_ = 0;  // The last tag before the value.
  std::vector<container> open_;
};

}  // namespace ringload::inline v0
