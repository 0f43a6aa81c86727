// SPDX-License-Identifier: Apache-2.0
#pragma once

// Converts numbers of bytes from and to text for people.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ringload::tool {

/// Parses a size, such as "4096", "64K", "1.5M", "4GiB" or "8GB". K, M, G and T, with or without
/// "iB", are powers of 1,024. KB, MB, GB and TB are powers of 1,000. Upper and lower case are
/// equal. A fraction may have at most six digits. A fraction of a byte is dropped. Returns empty
/// for any other text, and for 2^64 bytes or more.
std::optional<std::uint64_t> parse_size(std::string_view text);

/// Parses a decimal number without a sign and without blanks.
std::optional<std::uint64_t> parse_number(std::string_view text);

/// Returns the number with separators, such as "1,509,296".
std::string grouped(std::uint64_t number);

/// Returns the number with a noun, such as "1 file" or "1,200 files".
std::string counted(std::uint64_t number, std::string_view noun);

/// Returns the size with a binary unit, such as "1.4 MiB", or "17 B" for a size below 1,024.
std::string binary_size(std::uint64_t bytes);

/// Returns both forms, such as "1,509,296 bytes (1.4 MiB)", or "17 bytes" for a size below 1,024.
std::string both_sizes(std::uint64_t bytes);

}  // namespace ringload::tool
