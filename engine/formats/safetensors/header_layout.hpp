// SPDX-License-Identifier: Apache-2.0
#pragma once

// Checks the ranges of the tensors in a safetensors header. The tensors must occupy the file from
// the end of the header to the end of the file, without gaps and without overlaps. The size of each
// range must match the shape and dtype of the tensor.

#include <cstdint>
#include <ringload/catalog.hpp>
#include <vector>

#include "base/fault.hpp"
#include "formats/catalog_entries.hpp"
#include "formats/safetensors/safetensors_json.hpp"

namespace ringload::inline v0 {

struct data_section {
  std::uint64_t begin = 0;       // Offset in the file. At most `file_bytes`.
  std::uint64_t file_bytes = 0;  // The end of the data section and of the file.
};

// Returns the tensors in file order with their ranges. The checks have the same order as in the
// reference implementation, so that the parser and the reference implementation report the same
// fault.
result<std::vector<entry>> lay_out(safetensors_json header, data_section data,
                                   strictness strictness);

}  // namespace ringload::inline v0
