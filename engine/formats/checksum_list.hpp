// SPDX-License-Identifier: Apache-2.0
#pragma once

// Parses the text of a checksum list. ringload/verify.hpp describes the format.

#include <cstddef>
#include <ringload/export.hpp>
#include <ringload/verify.hpp>
#include <span>
#include <string>
#include <string_view>

#include "base/fault.hpp"

namespace ringload::inline v0 {

std::size_t digest_bytes(digest_algorithm algorithm) noexcept;

// Returns lower-case hexadecimal digits.
RINGLOAD_EXPORT std::string hex(std::span<const std::byte> bytes);

// On failure, returns errc::malformed_checksum_list. The `where()` of the fault is "<place>: line
// 3".
result<checksum_list> parse_checksum_text(std::string_view text, const std::string& place);

}  // namespace ringload::inline v0
