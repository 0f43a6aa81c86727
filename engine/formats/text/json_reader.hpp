// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reads JSON from front to back: the caller requests the next expected value.
//
// No library is used because errors must name the byte and the expected value. Boost.JSON 1.81 was
// tried (basic_parser and a handler, 2026-11). It gave the same verdict on 175,820 mutated headers
// and indexes. It needed 1.11 times the processor time for a header of 100,000 tensors and saved 52
// of 797 lines. But of the 165,436 refusals, 19 % named another byte, and 41 % reported only a
// syntax error. Every program that links the library would also have linked Boost.JSON.
//
// The reader builds no tree. A header of 100 MB needs at most its own size again, and only for
// escapes.

#include <cstddef>
#include <cstdint>
#include <ringload/export.hpp>
#include <string>
#include <string_view>

namespace ringload::inline v0 {

// Every function that returns bool returns false after a failure. The first fault is kept, and
// position() is then the byte of the fault. The text must be valid UTF-8 and must outlive the
// reader. The reader must outlive the strings that it returns.
class RINGLOAD_EXPORT json_reader {
 public:
  explicit json_reader(std::string_view text) noexcept : text_(text) {}
  json_reader(const json_reader&) = delete;
  json_reader& operator=(const json_reader&) = delete;

  // Returns the next byte that is not white space; '\0' at the end of the text.
  char peek() noexcept;

  // Use: while (in.next_key(key)) { read the value }. Then failed() tells the end of the object
  // from a malformed object.
  bool enter_object();
  bool next_key(std::string_view& key);
  bool enter_array();
  bool next_item();

  bool string(std::string_view& value);
  bool number(std::string_view& text);  // Follows the grammar and fits in a double.
  bool unsigned_integer(std::uint64_t& value);
  bool null();
  // Skips any value with at most `containers_deep` nested containers.
  bool skip_value(unsigned containers_deep);
  // True if only white space is left.
  bool end();

  // Refuses a value that is valid JSON but invalid for the caller. Always returns false, for
  // `return in.fail(...)`.
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
  bool just_opened_ = false;  // The next item of this container needs no comma.

  // Strings that had escapes. Decoding only shortens strings, so with text_.size() reserved the
  // buffer never moves.
  std::string decoded_;

  std::string cause_;
  std::size_t fault_position_ = 0;
};

}  // namespace ringload::inline v0
