// SPDX-License-Identifier: Apache-2.0
#pragma once

// Validates the layout that a header describes: tensors must fill the file from the header's end
// to the file's end without gap or overlap. Each tensor must have the bytes of its shape and dtype.

#include <cstdint>
#include <ringload/catalog.hpp>
#include <vector>

#include "base/fault.hpp"
#include "formats/catalog_entries.hpp"
#include "formats/safetensors/safetensors_json.hpp"

namespace ringload::inline v0 {

struct data_section {
  std::uint64_t begin = 0;       // Offset in the file, at most `file_bytes`.
  std::uint64_t file_bytes = 0;  // The end of the section and of the file.
};

// Returns the tensors in file order with their extents. The order of checks is that of the
// reference implementation, so that the same fault is reported first.
result<std::vector<entry>> lay_out(safetensors_json header, data_section data,
                                   strictness strictness);

}  // namespace ringload::inline v0
