// SPDX-License-Identifier: Apache-2.0
#pragma once

// Whether what a header says of its tensors can be true: their bytes follow each other without hole
// or overlap from the header's end to the file's end, and each is as long as its shape demands.

#include <cstdint>
#include <ringload/catalog.hpp>
#include <vector>

#include "core/fault.hpp"
#include "formats/described_header.hpp"
#include "formats/entries.hpp"

namespace ringload::inline v0 {

struct data_section {
  std::uint64_t begin = 0;       // Byte of the file, at most `file_bytes`.
  std::uint64_t file_bytes = 0;  // Where it ends.
};

// The tensors in file order, their extents set. Checks in the reference's order, so that of several
// faults the same kind is found.
result<std::vector<entry>> lay_out(described_header header, data_section data, profile strictness);

}  // namespace ringload::inline v0
