// SPDX-License-Identifier: Apache-2.0
#pragma once

// Text as it is shown and read: untrusted names of a checkpoint, escaped for a terminal or a line
// of sums; and what a person has typed.

#include <cstddef>
#include <string>
#include <string_view>

namespace ringload::tool {

/// The length of the UTF-8 character that `text` begins with; 0 where it begins with none.
std::size_t utf8_length(std::string_view text) noexcept;

/// `text` with control characters and bytes that are not UTF-8 shown as "\n", "\x1b": one line,
/// without terminal escapes. A backslash stays as it is, so this cannot be decoded: for people
/// only.
std::string printable(std::string_view text);

/// One line of `ringload sum`: the digest, two spaces, the name. As with sha256sum, a name with a
/// backslash or a control character makes the line begin with a backslash, and is escaped: "\\",
/// "\n", "\r", "\t", any other control character "\x1b".
std::string sum_line(std::string_view digest, std::string_view name);

/// `text` without the blanks and line ends around it.
std::string_view trimmed(std::string_view text) noexcept;

/// How many columns a terminal needs, taking each character for one wide.
std::size_t columns(std::string_view utf8) noexcept;

}  // namespace ringload::tool
