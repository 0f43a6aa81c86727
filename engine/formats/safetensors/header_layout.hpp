// SPDX-License-Identifier: Apache-2.0
#pragma once

// Validates the layout that a header describes: tensors fill the file from the header's end to the
// file's end without hole or overlap, and each has the bytes of its shape and dtype.

#include <cstdint>
#include <ringload/catalog.hpp>
#include <vector>

#include "base/fault.hpp"
#include "formats/catalog_entries.hpp"
#include "formats/safetensors/safetensors_json.hpp"

namespace ringload::inline v0 {

struct data_section {
  std::uint64_t begin = 0;       // Byte of the file, at most `file_bytes`.
  std::uint64_t file_bytes = 0;  // Where it ends.
};

// The tensors in file order, their extents set. Checks in the order of the reference
// implementation, so that of several faults the same one is reported.
result<std::vector<entry>> lay_out(safetensors_json header, data_section data,
                                   strictness strictness);

}  // namespace ringload::inline v0
