// SPDX-License-Identifier: Apache-2.0
#pragma once

// Parses the body of POST /models, which is untrusted:
//
//   {"source": "large", "id": "main", "select": ["*.weight"], "shard": ["*_proj.weight:0"],
//    "rank": "1/4"}

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

}  // namespace ringload::server
