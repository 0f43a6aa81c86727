// SPDX-License-Identifier: Apache-2.0
#pragma once

// Parses the files of a checkpoint when their location is known. The location is a file, a folder,
// or an index with its shards. Used by resolve_source().

#include <memory>
#include <optional>
#include <ringload/catalog.hpp>
#include <string>
#include <vector>

#include "base/fault.hpp"
#include "base/unique_fd.hpp"
#include "catalog/assemble.hpp"
#include "catalog/source_file.hpp"
#include "catalog/source_folder.hpp"
#include "catalog/source_options.hpp"
#include "formats/catalog_entries.hpp"
#include "formats/description_budget.hpp"

namespace ringload::inline v0 {

struct parsed_source {
  ringload::catalog catalog;
  std::vector<std::shared_ptr<const stored_form>> stored;     // See merged_catalog::stored.
  std::vector<std::shared_ptr<const stored_digest>> digests;  // See merged_catalog::digests.
  // One element for each element of catalog.files. The files are open for buffered reads.
  std::vector<source_file> files;
};

// Open files and their contents. assemble_all() or assemble_listed() merges the contents into one
// catalog.
struct opened_files {
  std::vector<file_content> contents;
  std::vector<source_file> files;            // One element for each element of `contents`.
  std::optional<description_budget> budget;  // Limits the metadata of all files.
  // External data files (file_entries::external_files), in the order of `files`.
  std::vector<source_file> external_files;
};

// Combines the merged catalog with the open files.
result<parsed_source> assemble_source(opened_files opened, result<merged_catalog> assembled_source);

// Parses a file that the user named. Also opens its external data files.
result<void> add_named_file(opened_files& opened, source_file file, const std::string& path,
                            const source_options& options);

// Parses the file `name` of a folder. Also opens its external data files.
result<void> add_part(opened_files& opened, const source_folder& folder, source_file file,
                      const std::string& name, const source_options& options);

// Parses a file. If the file is the first file of a GGUF series, parses all files of the series.
result<parsed_source> parse_series_file(source_file file, const std::string& path,
                                        const source_options& options);

// Parses an index and its shards. `sub_folder` is the path of the index's folder in `folder`.
// `sub_folder` is empty if the index is directly in `folder`.
result<parsed_source> parse_index(const source_folder& folder, source_file index_file,
                                  const std::string& index_path, const source_options& options,
                                  const std::string& sub_folder = {});

result<std::vector<std::string>> list_independent_files(const source_folder& folder);

// Returns the fault for a single file at `path` if the user requested the independent files of a
// folder.
fault folder_expected(const std::string& path);

// Chooses and parses the checkpoint of the folder: an index, the files that form one checkpoint, or
// all independent files.
result<parsed_source> parse_folder(const source_folder& folder, const source_options& options);

// Parses the file `name` of a folder in a byte store. If the file is an index, also parses its
// shards. If the file is the first file of a GGUF series, parses all files of the series.
result<parsed_source> parse_folder_file(const source_folder& folder, const std::string& name,
                                        const source_options& options);

// Parses the checkpoint at `path`, which is a file, a folder, or a symlink to a file or folder.
// `fd` is a descriptor of `path`.
result<parsed_source> parse_path(unique_fd fd, const std::string& path,
                                 const source_options& options);

}  // namespace ringload::inline v0
