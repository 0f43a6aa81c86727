// SPDX-License-Identifier: Apache-2.0
#pragma once

// Converts a parsed tensor to the user's tensor_info and to the planner's storage description.

#include <cstdint>
#include <memory>
#include <ringload/catalog.hpp>
#include <vector>

#include "formats/catalog_entries.hpp"

namespace ringload::inline v0 {

struct catalog_entry {
  tensor_info info;
  std::shared_ptr<const stored_form> stored;    // As in `entry`; its files are the catalog's.
  std::shared_ptr<const stored_digest> digest;  // Likewise.
};

// `files` leads from the numbers that the parser gave the files, the parsed one being 0, to the
// catalog's. A tensor that is one run of a file's bytes as they are has no stored form in the
// result, and lies in that file, whichever it is.
catalog_entry catalog_entry_of(entry&& from, const std::vector<std::uint32_t>& files);

}  // namespace ringload::inline v0
