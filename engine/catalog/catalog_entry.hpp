// SPDX-License-Identifier: Apache-2.0
#pragma once

// Converts a tensor that a parser has found (`entry`) to a tensor_info of the public catalog, and
// to the description of its stored bytes.

#include <cstdint>
#include <memory>
#include <ringload/catalog.hpp>
#include <vector>

#include "formats/catalog_entries.hpp"

namespace ringload::inline v0 {

struct catalog_entry {
  tensor_info info;
  // `entry::stored` with the file numbers of the catalog. Null if the tensor is stored unchanged in
  // one range of a file. In that case, `info` has this range.
  std::shared_ptr<const stored_form> stored;
  // `entry::digest` with the file numbers of the catalog. Null if the file has no digest.
  std::shared_ptr<const stored_digest> digest;
};

// `files` maps the file numbers of the parser to the file numbers of the catalog. The parser uses 0
// for the parsed file, and 1, 2, ... for its external data files.
catalog_entry catalog_entry_of(entry&& tensor, const std::vector<std::uint32_t>& files);

}  // namespace ringload::inline v0
