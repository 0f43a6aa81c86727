// SPDX-License-Identifier: Apache-2.0
#pragma once

// Parses the JSON body of a request, which is untrusted.

#include <boost/json/object.hpp>
#include <initializer_list>
#include <string_view>

namespace ringload::server {

/// The object that `text` is. `required` is a key that must be there, with a string. Throws
/// std::invalid_argument with a sentence for the client: also for a key that is repeated, or that
/// is neither `required` nor in `optional`, because a misspelt key must not be ignored.
boost::json::object parse_request_body(std::string_view text, std::string_view required,
                                       std::initializer_list<std::string_view> optional);

}  // namespace ringload::server
