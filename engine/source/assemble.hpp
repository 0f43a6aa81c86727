// SPDX-License-Identifier: Apache-2.0
#pragma once

// From what each file holds to one catalog of them all. Pure: everything has been read.

#include <cstdint>
#include <ringload/catalog.hpp>
#include <string>
#include <vector>

#include "core/fault.hpp"
#include "formats/entries.hpp"
#include "formats/shard_index.hpp"

namespace ringload::inline v0 {

struct file_content {
  std::string path;  // As a user would recognise it.
  std::uint64_t bytes = 0;
  file_entries entries;
};

// Every tensor of every file. A name that stands in two files is duplicate_tensor.
result<catalog> assemble_all(std::vector<file_content> files);

// The tensors that the index lists, each from the shard it is listed for; `files` stand in the
// order of `index.shards`. One that its shard lacks is missing_tensor; one that is not listed is
// not loaded, and a note counts them.
result<catalog> assemble_listed(std::vector<file_content> files, const shard_index& index);

}  // namespace ringload::inline v0
