// SPDX-License-Identifier: Apache-2.0
#pragma once

// From the name of a checkpoint to open regular files and their catalog. The descriptor that was
// checked is the one that will be read.

#include <memory>
#include <ringload/byte_source.hpp>
#include <ringload/catalog.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fault.hpp"
#include "catalog/hf_cache.hpp"
#include "catalog/source_file.hpp"
#include "catalog/source_options.hpp"
#include "formats/catalog_entries.hpp"

namespace ringload::inline v0 {

struct parsed_source {
  ringload::catalog catalog;
  std::vector<std::shared_ptr<const stored_form>> stored;     // As in `assembled`.
  std::vector<std::shared_ptr<const stored_digest>> digests;  // Likewise.
  std::vector<source_file> files;  // One for each of catalog.files: read-only, buffered.
};

// `source` is a file, a folder, an index file, `owner/model[@revision]` in the local Hugging Face
// cache, or the address of such a model: https://huggingface.co/owner/model, and behind that
// /tree/REVISION, or /resolve/REVISION/FILE for one file of it; or else what a store of `how`
// knows. Blocks on the file system, and on the store.
result<parsed_source> resolve_source(std::string_view source, const source_options& options);

// The same, with the environment variables that locate the cache.
result<parsed_source> resolve_source(std::string_view source, const source_options& options,
                                     const environment& variables);

// Opens a source that a store or a program supplies.
result<parsed_source> open_found(const found_source& found, const source_options& options);

// Several files, each with its own tensors: one catalog of them all, in the given order. A name
// that stands in two files is duplicate_tensor.
result<parsed_source> open_files(std::span<const std::string> paths, const source_options& options);

}  // namespace ringload::inline v0
