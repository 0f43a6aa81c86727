// SPDX-License-Identifier: Apache-2.0
#pragma once

// Merges what each file holds into one catalog. Pure: no I/O.

#include <cstdint>
#include <ringload/catalog.hpp>
#include <string>
#include <vector>

#include "core/fault.hpp"
#include "formats/entries.hpp"
#include "formats/shard_index.hpp"

namespace ringload::inline v0 {

struct file_content {
  std::string path;  // As the user wrote it, for messages.
  std::uint64_t bytes = 0;
  file_entries entries;
};

// Every tensor of every file. A name in two files is duplicate_tensor.
result<catalog> assemble_all(std::vector<file_content> files);

// The tensors that the index lists, each from the shard it is listed for; `files` are in the order
// of `index.shards`. A tensor missing from its shard is missing_tensor. Tensors that are not listed
// are not loaded; a note counts them.
result<catalog> assemble_listed(std::vector<file_content> files, const shard_index& index);

}  // namespace ringload::inline v0
