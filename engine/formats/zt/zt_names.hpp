// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "formats/catalog_entries.hpp"

namespace ringload::inline v0 {

// If another tensor has the name of a part, all parts of the composite get names with a longer
// separator: see composite_info. The first part of entries.composites[c] is
// entries.tensors[first_parts[c]]. The other parts follow.
void separate_zt_names(file_entries& entries, const std::vector<std::size_t>& first_parts);

}  // namespace ringload::inline v0
