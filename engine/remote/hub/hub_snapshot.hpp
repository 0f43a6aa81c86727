// SPDX-License-Identifier: Apache-2.0
#pragma once

// Finds models of the Hugging Face hub in the local cache.

#include <string>

#include "catalog/hf_cache.hpp"
#include "remote/hub/hub_api.hpp"

namespace ringload::inline v0::remote_http {

// If the cache has all files that a load would open, returns the path of `file` in the snapshot. If
// `file` is empty, returns the path of the snapshot. If a file is missing, returns an empty string.
// `listing` is the listing of the model that the hub returned.
std::string cached_checkpoint(const std::string& cache, const model_name& model,
                              const hub_listing& listing, const std::string& file);

// Returns the path of the snapshot of `address.model`, or of `address.file` in the snapshot if the
// address has a file. Sends no request to the hub. Returns source_not_found if the cache does not
// have the revision.
result<std::string> cached_revision(const std::string& cache, const hub_address& address);

// Returns true if the snapshot of `address.model` has the files that a load opens. Sends no request
// to the hub. If `address.file` is empty, the snapshot itself decides which file is the checkpoint,
// or has several checkpoints, or has tensor files in sub-folders only.
bool has_cached_files(const std::string& cache, const hub_address& address);

}  // namespace ringload::inline v0::remote_http
