// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a format turns header bytes into. Nothing below the formats knows which of them it was.

#include <cstdint>
#include <ringload/catalog.hpp>
#include <string>
#include <utility>
#include <vector>

namespace ringload::inline v0 {

// One tensor of one file. Extents never overlap, lie inside the file, and stand in file order.
struct entry {
  std::string name;
  ringload::dtype dtype = dtype::u8;
  std::vector<std::uint64_t> shape;
  std::uint64_t offset = 0;  // From the beginning of the file.
  std::uint64_t bytes = 0;
};

struct file_entries {
  std::vector<entry> tensors;
  std::vector<std::pair<std::string, std::string>> metadata;
  std::vector<std::string> notes;
};

}  // namespace ringload::inline v0
