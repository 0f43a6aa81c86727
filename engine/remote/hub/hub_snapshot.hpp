// SPDX-License-Identifier: Apache-2.0
#pragma once

// Finds models of the hub in the local cache.

#include <string>

#include "catalog/hf_cache.hpp"
#include "remote/hub/hub_api.hpp"

namespace ringload::inline v0::remote_http {

// Returns the path of the snapshot, or of `file` in the snapshot, if the cache has all files that a
// load would open, by the names that the hub lists. Else returns an empty string.
std::string cached_checkpoint(const std::string& cache, const model_name& model,
                              const hub_listing& listing, const std::string& file);

// Returns the path of the revision that the cache has, without asking the hub. Returns
// source_not_found if the cache does not have the revision.
result<std::string> cached_revision(const std::string& cache, const hub_address& address);

}  // namespace ringload::inline v0::remote_http
