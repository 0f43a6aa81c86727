// SPDX-License-Identifier: Apache-2.0
#pragma once

// Checks JSON against a schema, for the keywords that the schemas of apps/ use. An unknown keyword
// is an error, so that no rule is ignored.

#include <boost/json/value.hpp>
#include <string>

/// Throws `std::runtime_error`, which names the place in `value` and the rule. `path` is the file
/// of the schema: a reference to another file is relative to its folder.
void validate(const boost::json::value& value, const std::string& path);
