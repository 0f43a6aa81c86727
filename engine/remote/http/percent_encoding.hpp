// SPDX-License-Identifier: Apache-2.0
#pragma once

// Percent-encoding for addresses: an encoded byte becomes %XX, with capital hexadecimal digits.

#include <string>
#include <string_view>

#include "base/fault.hpp"

namespace ringload::inline v0::remote_http {

// Encodes every byte except letters, digits and -._~, by the rules of RFC 3986 and of S3
// signatures.
std::string percent_encoded(std::string_view text);
// Like percent_encoded(), but does not encode '/'.
std::string percent_encoded_path(std::string_view text);

// Encodes only spaces, double quotes, bytes beyond ASCII, and the characters <>\^`{|}, which an
// address must not contain. Does not change existing escapes and separators.
std::string percent_encoded_raw(std::string_view address);

// Decodes all escapes: "%2F" becomes "/". Returns invalid_source_name if a '%' is not followed by
// two hexadecimal digits.
result<std::string> percent_decoded(std::string_view text);

}  // namespace ringload::inline v0::remote_http
