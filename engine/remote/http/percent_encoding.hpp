// SPDX-License-Identifier: Apache-2.0
#pragma once

// Percent-encoding according to RFC 3986 and the signatures of S3: all bytes except letters, digits
// and -._~ become %XX, with capital digits.

#include <string>
#include <string_view>

#include "base/fault.hpp"

namespace ringload::inline v0::remote_http {

std::string percent_encoded(std::string_view text);
// Does not encode '/'.
std::string percent_encoded_path(std::string_view text);

// "%2F" -> "/". Returns invalid_source_name if a '%' is not followed by two hexadecimal digits.
result<std::string> percent_decoded(std::string_view text);

}  // namespace ringload::inline v0::remote_http
