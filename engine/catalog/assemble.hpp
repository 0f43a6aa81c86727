// SPDX-License-Identifier: Apache-2.0
#pragma once

// Merges the contents of the files of a checkpoint into one catalog. Pure functions.

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
  std::vector<file_info> external_files;  // One element for each element of entries.external_files.
};

struct assembled {
  // The first files of the catalog are all parsed files. The external data files of the first
  // parsed file follow, then those of the second parsed file, and so on.
  ringload::catalog catalog;
  // One element for each tensor. Null if the tensor is stored unchanged in the bytes [offset,
  // offset + bytes) of its file. The streams in an element have the file numbers of the catalog.
  std::vector<std::shared_ptr<const stored_form>> stored;
  // Indexed by tensor. An element is null if the file has no digest of the tensor. The vector is
  // empty if no file has digests.
  std::vector<std::shared_ptr<const stored_digest>> digests;
};

// Returns every tensor of every file. Returns errc::duplicate_tensor if two files have a tensor
// with the same name. Returns errc::extent_outside_file if a tensor ends past the end of an
// external data file.
result<assembled> assemble_all(std::vector<file_content> files);

// Returns the tensors that the index lists. Takes each tensor from the shard that the index states.
// `files` must be in the order of `index.shards`. Returns errc::missing_tensor if a shard lacks a
// listed tensor. Omits tensors that are not listed, and adds a note with their count.
result<assembled> assemble_listed(std::vector<file_content> files, const shard_index& index);

}  // namespace ringload::inline v0
