// SPDX-License-Identifier: Apache-2.0
#pragma once

// Makes the names of parts unique if another tensor has the same name.

#include <cstddef>
#include <vector>

#include "formats/catalog_entries.hpp"

namespace ringload::inline v0 {

// Gives parts with a duplicate name another separator, see composite_info. The parts of composite c
// are the tensors from index first_parts[c] on.
void separate_zt_names(file_entries& found, const std::vector<std::size_t>& first_parts);

}  // namespace ringload::inline v0
