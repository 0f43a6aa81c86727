// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reads JSON from front to back, as its caller asks for what must come next.
//
// It is our own because its errors name the byte, and what was expected there. Boost.JSON 1.81 was
// tried in its place (basic_parser and a handler, 2026-11): the same verdict on 175,820 mutated
// headers and indexes, 1.11 times the processor time for a header of 100,000 tensors, and 52 of 797
// lines less. But of the 165,436 refusals 19 % named another byte, and 41 % more said only that it
// was a syntax error; and every program that links the library would have linked Boost.JSON too.
//
// Nothing here makes a tree: a header of 100 MB costs at most its own size once more, and that only
// for escapes.

#include <cstddef>
#include <cstdint>
#include <ringload/export.hpp>
#include <string>
#include <string_view>

namespace ringload::inline v0 {

// Every function that returns bool returns false once something was wrong; the first fault stays,
// and position() is then the byte it was found at. The text must be valid UTF-8 and must outlive
// the reader; so must the reader the strings it gave out.
class RINGLOAD_EXPORT json_reader {
 public:
  explicit json_reader(std::string_view text) noexcept : text_(text) {}
  json_reader(const json_reader&) = delete;
  json_reader& operator=(const json_reader&) = delete;

  // The first byte of what comes next, white space aside; '\0' where nothing does.
  char peek() noexcept;

  // while (in.next_key(key)) { read the value }, then ask failed(): the object ended or was broken.
  bool enter_object();
  bool next_key(std::string_view& key);
  bool enter_array();
  bool next_item();

  bool string(std::string_view& value);
  bool number(std::string_view& text);  // Keeps to the grammar, and fits in a double.
  bool unsigned_integer(std::uint64_t& value);
  bool null();
  // Any value, of at most that many containers inside each other.
  bool skip_value(unsigned containers_deep);
  // Nothing but white space is left.
  bool end();

  // Refuses what JSON allows but the caller does not. Always false, for `return in.fail(...)`.
  bool fail(std::string cause) { return fail_at(at_, std::move(cause)); }
  bool fail_at(std::size_t position, std::string cause);

  bool failed() const noexcept { return !cause_.empty(); }
  const std::string& cause() const noexcept { return cause_; }
  std::size_t position() const noexcept { return failed() ? fault_at_ : at_; }

 private:
  bool unexpected(std::string_view wanted);
  bool enter(char open, std::string_view wanted);
  bool next_in(char close, std::string_view wanted);
  bool literal(std::string_view word);
  bool digits();
  bool escaped_string(std::size_t begin, std::string_view& value);
  bool escape();
  bool unicode_escape();
  bool four_hex(char32_t& unit);

  std::string_view text_;
  std::size_t at_ = 0;
  bool just_opened_ = false;  // The next item of this container needs no comma.

  // Strings that had escapes. Decoding only shortens, so with text_.size() reserved it never moves.
  std::string decoded_;

  std::string cause_;
  std::size_t fault_at_ = 0;
};

}  // namespace ringload::inline v0
