// SPDX-License-Identifier: Apache-2.0
#pragma once

// Percent-encoding for addresses, by the rules of RFC 3986 and of S3 signatures. Every byte except
// letters, digits and -._~ becomes %XX, with capital hexadecimal digits.

#include <string>
#include <string_view>

#include "base/fault.hpp"

namespace ringload::inline v0::remote_http {

std::string percent_encoded(std::string_view text);
// Does not encode '/'.
std::string percent_encoded_path(std::string_view text);

// Encodes only bytes that an address must not contain: blanks, bytes beyond ASCII, and "<>\^`{|}.
// Does not change existing escapes and separators.
std::string percent_encoded_raw(std::string_view address);

// Converts "%2F" to "/". Returns invalid_source_name if two hexadecimal digits do not follow a '%'.
result<std::string> percent_decoded(std::string_view text);

}  // namespace ringload::inline v0::remote_http
