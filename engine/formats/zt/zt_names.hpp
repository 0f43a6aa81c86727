// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "formats/catalog_entries.hpp"

namespace ringload::inline v0 {

// If another tensor has the name of a part, all parts of the composite get names with another
// separator: see composite_info. The parts of composite c are the tensors from index first_parts[c]
// on.
void separate_zt_names(file_entries& found, const std::vector<std::size_t>& first_parts);

}  // namespace ringload::inline v0
