// SPDX-License-Identifier: Apache-2.0
#pragma once

// The end of a zip archive, which says where its directory lies.

#include <cstdint>

#include "base/fault.hpp"
#include "formats/text/input.hpp"

namespace ringload::inline v0 {

// Where the directory lies, as the end of the archive says.
struct zip_directory_place {
  std::uint64_t members = 0;
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;
  std::uint64_t end = 0;  // Where what describes it begins: so it must end there.
};

// One volume, no bytes between the directory and what describes it.
result<zip_directory_place> find_zip_directory(input& from);

}  // namespace ringload::inline v0
