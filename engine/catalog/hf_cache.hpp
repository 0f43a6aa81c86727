// SPDX-License-Identifier: Apache-2.0
#pragma once

// Finds `owner/model[@revision]` in the local Hugging Face cache, by the rules of huggingface_hub
// 1.28. Downloads nothing, and does not guess a snapshot: if the revision is not in the cache,
// returns errc::source_not_found.

#include <functional>
#include <optional>
#include <ringload/export.hpp>
#include <string>
#include <string_view>

#include "base/fault.hpp"
#include "catalog/hub_address.hpp"
#include "catalog/model_folder.hpp"

namespace ringload::inline v0 {

// Returns the value of an environment variable. Returns an empty optional if the variable is not
// set. Tests pass their own function.
using environment = std::function<std::optional<std::string>(const std::string& name)>;
RINGLOAD_EXPORT environment process_environment();

// Returns the first of these folders whose variable is set: $HF_HUB_CACHE, $HUGGINGFACE_HUB_CACHE,
// $HF_HOME/hub, $XDG_CACHE_HOME/huggingface/hub, $HOME/.cache/huggingface/hub. Expands `~` and
// `$VAR` in the values. A variable with an empty value counts as not set.
RINGLOAD_EXPORT result<std::string> cache_folder(const environment& variables);

// Returns the name of the model's folder in the cache, such as "models--owner--name".
RINGLOAD_EXPORT std::string repository_folder(const model_name& model);

// Opens the snapshot of the model's revision.
RINGLOAD_EXPORT result<model_folder> open_cached_model(const std::string& cache,
                                                       const model_name& model);

}  // namespace ringload::inline v0
