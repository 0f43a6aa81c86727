// SPDX-License-Identifier: Apache-2.0
#pragma once

// Numbers of bytes as people write them.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ringload::tool {

/// Reads "4096", "64K", "1.5M", "4GiB", "8GB". K, M, G, T, with or without "iB", count in steps of
/// 1,024; KB, MB, GB, TB in steps of 1,000; case does not matter. A fraction has at most six
/// digits, and what is left of a byte is dropped. Empty for any other text, and for 2^64 bytes and
/// more.
std::optional<std::uint64_t> parse_size(std::string_view text);

/// Reads a plain decimal number: no sign, no blanks.
std::optional<std::uint64_t> parse_number(std::string_view text);

/// "1,509,296".
std::string grouped(std::uint64_t number);

/// "1 file", "1,200 files".
std::string counted(std::uint64_t number, std::string_view what);

/// "1.4 MiB"; below 1,024 "17 B".
std::string binary_size(std::uint64_t bytes);

/// "1,509,296 bytes (1.4 MiB)"; below 1,024 "17 bytes".
std::string both_sizes(std::uint64_t bytes);

}  // namespace ringload::tool
