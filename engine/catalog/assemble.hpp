// SPDX-License-Identifier: Apache-2.0
#pragma once

// Merges what each file holds into one catalog. Pure: no I/O.

#include <memory>
#include <ringload/catalog.hpp>
#include <string>
#include <vector>

#include "base/fault.hpp"
#include "formats/catalog_entries.hpp"
#include "formats/shard_index.hpp"

namespace ringload::inline v0 {

struct file_content {
  file_info info;
  file_entries entries;
  std::vector<file_info> files_beside;  // One for each of entries.files_beside.
};

struct assembled {
  ringload::catalog catalog;  // Files: the given files, then the files beside them.
  // One for each tensor; null where it is the bytes [offset, offset + bytes) of its file. Streams
  // name their file as the catalog does.
  std::vector<std::shared_ptr<const stored_form>> stored;
  // By tensor; null if the file has no digest of the tensor. Empty if no file has digests.
  std::vector<std::shared_ptr<const stored_digest>> digests;
};

// Every tensor of every file. A name in two files is duplicate_tensor; bytes that are to lie past
// the end of a file beside are extent_outside_file.
result<assembled> assemble_all(std::vector<file_content> files);

// The tensors that the index lists, each from the shard it is listed for; `files` are in the order
// of `index.shards`. A tensor missing from its shard is missing_tensor. Tensors that are not listed
// are not loaded; a note counts them.
result<assembled> assemble_listed(std::vector<file_content> files, const shard_index& index);

}  // namespace ringload::inline v0
