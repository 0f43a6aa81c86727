// SPDX-License-Identifier: Apache-2.0
#pragma once

// Parses the JSON body of a request, which is untrusted.

#include <boost/json/object.hpp>
#include <initializer_list>
#include <string_view>

namespace ringload::server {

/// Parses a JSON object. The object must contain the key `required` with a string, and may contain
/// the keys `optional`. Refuses repeated and unknown keys, because a misspelt key must not be
/// ignored. Throws std::invalid_argument with a message for the client.
boost::json::object parse_request_body(std::string_view text, std::string_view required,
                                       std::initializer_list<std::string_view> optional);

}  // namespace ringload::server
