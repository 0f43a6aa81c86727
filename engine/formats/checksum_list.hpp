// SPDX-License-Identifier: Apache-2.0
#pragma once

// Parses and writes the text of a manifest. The format is described in ringload/verify.hpp.

#include <cstddef>
#include <ringload/export.hpp>
#include <ringload/verify.hpp>
#include <span>
#include <string>
#include <string_view>

#include "base/fault.hpp"

namespace ringload::inline v0 {

std::size_t digest_bytes(digest_algorithm algorithm) noexcept;

// Writes lower-case digits.
RINGLOAD_EXPORT std::string hex(std::span<const std::byte> bytes);

// Fails with errc::malformed_manifest at "<place>: line 3".
result<manifest> parse_manifest_text(std::string_view text, const std::string& place);

}  // namespace ringload::inline v0
