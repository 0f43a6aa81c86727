// SPDX-License-Identifier: Apache-2.0
#pragma once

// Escapes names from a checkpoint, which are untrusted, for a terminal or for a checksum list. Also
// measures and trims text.

#include <cstddef>
#include <string>
#include <string_view>

namespace ringload::tool {

/// Returns the number of bytes of the first UTF-8 character of `text`. Returns 0 if `text` does not
/// begin with a valid character.
std::size_t utf8_length(std::string_view text) noexcept;

/// Returns `text` as one line without control characters. Control characters, and bytes that are
/// not UTF-8, are shown as "\n" or "\x1b". A backslash is not changed, so the result cannot be
/// decoded. Use the result only for people.
std::string printable(std::string_view text);

/// Returns a line of `ringload sum`: the digest, two spaces, and the name. If the name contains a
/// backslash or a control character, the line begins with a backslash, as in the output of
/// sha256sum. The name is then escaped: a backslash is "\\", and control characters are "\n", "\r",
/// "\t" or, for example, "\x1b".
std::string sum_line(std::string_view digest, std::string_view name);

/// Returns `text` without the blanks and line ends at its start and its end.
std::string_view trimmed(std::string_view text) noexcept;

/// Returns the number of columns that the text needs on a terminal. Each character counts as one
/// column.
std::size_t columns(std::string_view utf8) noexcept;

}  // namespace ringload::tool
