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

struct merged_catalog {
  // The catalog first lists the parsed files: one for each `file_content`. The external data files
  // follow, in the order of their parsed files.
  ringload::catalog catalog;
  // One element for each tensor. Null if the tensor is stored unchanged in the bytes [offset,
  // offset + bytes) of its file. `stored_stream::file` is an index into `catalog.files`.
  std::vector<std::shared_ptr<const stored_form>> stored;
  // Indexed by tensor. An element is null if the file has no digest of the tensor. The vector is
  // empty if no file has digests.
  std::vector<std::shared_ptr<const stored_digest>> digests;
};

// Merges every tensor of every file. Returns errc::duplicate_tensor if two files have a tensor with
// the same name. Returns errc::extent_outside_file if a tensor ends past the end of an external
// data file.
result<merged_catalog> assemble_all(std::vector<file_content> files);

// Merges only the tensors that the index lists, each from the shard that the index states. `files`
// must be in the order of `index.shards`. Returns errc::missing_tensor if a shard lacks a listed
// tensor. Omits each tensor that the index does not list for its shard, and adds a note with the
// count.
result<merged_catalog> assemble_listed(std::vector<file_content> files, const shard_index& index);

}  // namespace ringload::inline v0
