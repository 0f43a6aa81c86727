// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "base/fault.hpp"
#include "formats/catalog_entries.hpp"
#include "formats/zt/zt_index.hpp"

namespace ringload::inline v0 {

// Converts an object of a .zt manifest and adds its tensors. If the object is not dense, also adds
// a composite.
std::optional<fault> add_zt_object(zt_object object, const zt_blob_rules& blobs,
                                   file_entries& entries);

}  // namespace ringload::inline v0
