// SPDX-License-Identifier: Apache-2.0
#pragma once

// Chooses the parser of a file. Only the bytes that the parser requests are read.

#include <cstddef>
#include <ringload/catalog.hpp>
#include <ringload/export.hpp>
#include <string_view>
#include <vector>

#include "base/fault.hpp"
#include "catalog/source_file.hpp"
#include "catalog/source_options.hpp"
#include "formats/catalog_entries.hpp"

namespace ringload::inline v0 {

struct parsed_file {
  std::string_view format;  // Same as file_info::format.
  file_entries entries;
};

// Reads and parses the header alone. What no parser reads is refused as what it looks like: `name`,
// the file's name or path, helps to tell. Faults name the place in the file, the caller adds the
// file.
result<parsed_file> read_entries(const source_file& file, std::string_view name,
                                 const source_options& options);

// The whole of a shard index.
RINGLOAD_EXPORT result<std::vector<std::byte>> read_index_text(const source_file& file);

}  // namespace ringload::inline v0
