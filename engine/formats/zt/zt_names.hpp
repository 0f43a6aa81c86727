// SPDX-License-Identifier: Apache-2.0
#pragma once

// The names of tensors that are parts of objects: a part may have the name of another tensor.

#include <cstddef>
#include <vector>

#include "formats/catalog_entries.hpp"

namespace ringload::inline v0 {

// Gives such parts another separator: see composite_info. Tensors [f, f + parts) are the parts of
// composite c, with f = first_parts[c].
void separate_zt_names(file_entries& found, const std::vector<std::size_t>& first_parts);

}  // namespace ringload::inline v0
