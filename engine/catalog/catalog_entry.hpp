// SPDX-License-Identifier: Apache-2.0
#pragma once

// Converts a tensor from a parser to the tensor_info of the public catalog, and to the description
// of its stored bytes.

#include <cstdint>
#include <memory>
#include <ringload/catalog.hpp>
#include <vector>

#include "formats/catalog_entries.hpp"

namespace ringload::inline v0 {

struct catalog_entry {
  tensor_info info;
  // A copy of `entry::stored` with the file numbers of the catalog. Null if the tensor is stored
  // unchanged in one range of a file. In that case, `info` has this range.
  std::shared_ptr<const stored_form> stored;
  // A copy of `entry::digest` with the file numbers of the catalog.
  std::shared_ptr<const stored_digest> digest;
};

// `files` maps the file numbers of the parser to the file numbers of the catalog. The parser uses 0
// for the parsed file.
catalog_entry catalog_entry_of(entry&& tensor, const std::vector<std::uint32_t>& files);

}  // namespace ringload::inline v0
