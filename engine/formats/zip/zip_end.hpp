// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reads the end of a zip archive, which contains the position of the directory.

#include <cstdint>

#include "base/fault.hpp"
#include "formats/text/input.hpp"

namespace ringload::inline v0 {

// The position of the directory, from the end of the archive.
struct zip_directory_place {
  std::uint64_t members = 0;
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;
  std::uint64_t end = 0;  // Beginning of the end records, where the directory must end.
};

// Refuses several volumes, and bytes between the directory and the end records.
result<zip_directory_place> find_zip_directory(input& from);

}  // namespace ringload::inline v0
