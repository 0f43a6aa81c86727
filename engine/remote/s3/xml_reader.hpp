// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reads the subset of XML that S3 uses for listings and errors: elements with text, in UTF-8.
// Attributes are skipped. The reader refuses DOCTYPE, CDATA, comments, processing instructions, and
// all entities except numbers and the five entities of XML. S3 servers do not send these
// constructs, and attacks on XML parsers use them.

#include <cstddef>
#include <string>
#include <string_view>

namespace ringload::inline v0::remote_http {

// After the first fault, every function that returns bool returns false. cause() then returns the
// first fault, and position() returns the byte of that fault. The text must be valid UTF-8 and must
// outlive the reader.
//
//   while (in.next_child(name)) { read the content by text() or next_child(), or call skip() }
class xml_reader {
 public:
  explicit xml_reader(std::string_view text) noexcept : text_(text) {}

  // Enters the outermost element.
  bool root(std::string_view& name);
  // Enters the next child of the open element. False: the open element has ended, or failed().
  bool next_child(std::string_view& name);
  // Reads the text of the open element, which must have no children, and leaves the element.
  bool text(std::string& value);
  // Skips the content of the open element and leaves the element.
  bool skip();
  // Returns true if only white space is left.
  bool end();

  bool failed() const noexcept { return !cause_.empty(); }
  const std::string& cause() const noexcept { return cause_; }
  std::size_t position() const noexcept { return position_; }

  static constexpr std::size_t depth_max = 16;

 private:
  bool fail(std::string cause);
  void skip_blanks() noexcept;
  bool begin_tag(std::string_view& name);
  bool end_tag();
  bool entity(std::string& into);
  bool rest() const noexcept { return position_ < text_.size(); }

  std::string_view text_;
  std::size_t position_ = 0;
  std::string_view open_[depth_max];
  std::size_t depth_ = 0;
  bool empty_ = false;  // The open element is <x/>, without content.
  std::string cause_;
};

}  // namespace ringload::inline v0::remote_http
