// SPDX-License-Identifier: Apache-2.0
#pragma once

// Finds a checkpoint by its name, opens its files, and parses their headers. Each file is read
// through the descriptor that was checked. Used by loads and by open_checkpoint().

#include <ringload/byte_source.hpp>
#include <span>
#include <string>
#include <string_view>

#include "base/fault.hpp"
#include "catalog/hf_cache.hpp"
#include "catalog/parse_files.hpp"
#include "catalog/source_options.hpp"

namespace ringload::inline v0 {

// `source` is one of the following:
// - a file, a folder or an index file
// - `owner/model[@revision]` in the local Hugging Face cache
// - the address of a model, or of one of its files, on the Hugging Face hub: see hub_address.hpp
// - a name that a store of `options.extensions` recognises
// The call blocks on the file system and on the store.
result<parsed_source> resolve_source(std::string_view source, const source_options& options);

// `variables` returns the environment variables that determine the folder of the cache.
result<parsed_source> resolve_source(std::string_view source, const source_options& options,
                                     const environment& variables);

// Opens a source that a store or a program supplies.
result<parsed_source> open_found(const found_source& found, const source_options& options);

// Returns one catalog for several files, in the given order. Returns errc::duplicate_tensor if two
// files have a tensor with the same name.
result<parsed_source> open_files(std::span<const std::string> paths, const source_options& options);

}  // namespace ringload::inline v0
