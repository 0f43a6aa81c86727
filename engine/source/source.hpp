// SPDX-License-Identifier: Apache-2.0
#pragma once

// From the name that a person writes to files that are open, checked to be regular, and whose
// catalog is known. The descriptor that was checked is the one that will be read.

#include <ringload/catalog.hpp>
#include <string_view>
#include <vector>

#include "core/fault.hpp"
#include "core/unique_fd.hpp"
#include "source/hf_cache.hpp"

namespace ringload::inline v0 {

struct opened_source {
  ringload::catalog catalog;
  std::vector<unique_fd> files;  // One for each of catalog.files: read-only, buffered.
};

// `source` is a file, a folder, an index file, or `owner/model[@revision]` in the local Hugging
// Face cache. Blocks on the file system.
result<opened_source> open_checkpoint(std::string_view source, profile strictness);

// The same, with the variables that say where the cache is.
result<opened_source> open_checkpoint(std::string_view source, profile strictness,
                                      const environment& variables);

}  // namespace ringload::inline v0
