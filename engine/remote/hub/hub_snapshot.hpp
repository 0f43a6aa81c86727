// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the local cache has of a model of the hub.

#include <string>

#include "catalog/hf_cache.hpp"
#include "remote/hub/hub_api.hpp"

namespace ringload::inline v0::remote_http {

// The path of the snapshot, or of `file` in it, if the cache has all that a load of it would open,
// by the names that the hub lists; else empty.
std::string cached_checkpoint(const std::string& cache, const model_name& model,
                              const hub_listing& listing, const std::string& file);

// The same of the revision that the cache has, whatever the hub has by now; source_not_found where
// it has none.
result<std::string> cached_revision(const std::string& cache, const hub_address& address);

}  // namespace ringload::inline v0::remote_http
