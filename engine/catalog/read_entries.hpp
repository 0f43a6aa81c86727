// SPDX-License-Identifier: Apache-2.0
#pragma once

// Chooses the parser of a file and calls the parser.

#include <cstddef>
#include <cstdint>
#include <ringload/catalog.hpp>
#include <ringload/export.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/fault.hpp"
#include "catalog/source_file.hpp"
#include "catalog/source_options.hpp"
#include "formats/catalog_entries.hpp"

namespace ringload::inline v0 {

struct parsed_file {
  std::string_view format;  // As in file_info::format.
  file_entries entries;
  std::uint64_t header_bytes = 0;  // As in file_info::header_bytes.
};

// Reads and parses only the header. `name` is the name or path of the file, and is used to guess
// the format. If no parser matches, the fault names the probable kind of the file. The `where()` of
// a fault is the position within the file. The caller must add the name of the file.
result<parsed_file> read_entries(const source_file& file, std::string_view name,
                                 const source_options& options);

// Returns the paths of the files with external data of the file (file_entries::external_files).
// Reads the header only if the format can have external data. `name` is as for read_entries().
RINGLOAD_EXPORT result<std::vector<std::string>> read_external_files(const source_file& file,
                                                                     std::string_view name);

// Returns the complete text of a shard index.
RINGLOAD_EXPORT result<std::vector<std::byte>> read_index_text(const source_file& file);

}  // namespace ringload::inline v0
