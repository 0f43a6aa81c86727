// SPDX-License-Identifier: Apache-2.0
#pragma once

// Parses the JSON body of a request, which is untrusted.

#include <boost/json/object.hpp>
#include <initializer_list>
#include <string_view>

namespace ringload::server {

/// Parses an object. `required` is a key that must exist and whose value must be a string. Throws
/// std::invalid_argument with a sentence for the client. Refuses repeated keys and unknown keys,
/// because a misspelt key must not be ignored.
boost::json::object parse_request_body(std::string_view text, std::string_view required,
                                       std::initializer_list<std::string_view> optional);

}  // namespace ringload::server
