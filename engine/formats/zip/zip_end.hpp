// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reads the end records of a zip archive, which state the position of the directory.

#include <cstdint>

#include "base/fault.hpp"
#include "formats/text/input.hpp"

namespace ringload::inline v0 {

// The directory's number of members, size and offset.
struct zip_directory_place {
  std::uint64_t members = 0;
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;
  std::uint64_t end = 0;  // Beginning of the end records. The directory must end at this offset.
};

// Refuses archives with several volumes, or with bytes between the directory and the end records.
result<zip_directory_place> find_zip_directory(input& archive);

}  // namespace ringload::inline v0
