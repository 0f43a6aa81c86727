// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reads the small part of XML that listings and errors of S3 are written in: elements with text,
// in UTF-8. Attributes are passed over. A DOCTYPE, entities but the five of XML and numbers, CDATA,
// comments and processing instructions are refused: no such server sends them, and they are what
// attacks on XML are made of.

#include <cstddef>
#include <string>
#include <string_view>

namespace ringload::inline v0::remote_http {

// Every function that returns bool returns false once something was wrong; the first fault stays,
// and position() is then the byte it was found at. The text, which must be valid UTF-8, outlives
// the reader.
//
//   while (in.next_child(name)) { read its content by text(), by next_child(), or skip() it }
class xml_reader {
 public:
  explicit xml_reader(std::string_view text) noexcept : text_(text) {}

  // The outermost element begins.
  bool root(std::string_view& name);
  // The next element inside the one that is open begins; false: that one has ended, or failed().
  bool next_child(std::string_view& name);
  // The element holds nothing but text, and ends.
  bool text(std::string& value);
  // Passes over what the element holds, to its end.
  bool skip();
  // Nothing but white space is left.
  bool end();

  bool failed() const noexcept { return !cause_.empty(); }
  const std::string& cause() const noexcept { return cause_; }
  std::size_t position() const noexcept { return at_; }

  static constexpr std::size_t depth_max = 16;

 private:
  bool fail(std::string cause);
  void skip_blanks() noexcept;
  bool begin_tag(std::string_view& name);
  bool end_tag();
  bool entity(std::string& into);
  bool rest() const noexcept { return at_ < text_.size(); }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string_view open_[depth_max];
  std::size_t depth_ = 0;
  bool empty_ = false;  // The element that was begun last is <x/>, and has no content.
  std::string cause_;
};

}  // namespace ringload::inline v0::remote_http
