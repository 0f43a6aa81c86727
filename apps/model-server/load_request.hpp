// SPDX-License-Identifier: Apache-2.0
#pragma once

// Parses the bodies of POST /models and PUT /models/ID/version, which are untrusted:
//
//   {"source": "large", "id": "main", "select": ["*.weight"], "shard": ["*_proj.weight:0"],
//    "rank": "1/4"}
//   {"delta": "v2.delta.zt"}

#include <string>
#include <string_view>

#include "models.hpp"

namespace ringload::server {

struct load_request {
  std::string id;  // May be empty.
  load_order order;
};

/// Throws std::invalid_argument with a sentence that describes the error.
load_request parse_load_wish(std::string_view body);

/// Returns the source of the delta. Throws std::invalid_argument with a sentence that describes the
/// error.
std::string parse_version_wish(std::string_view body);

}  // namespace ringload::server
