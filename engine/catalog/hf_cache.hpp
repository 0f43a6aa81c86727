// SPDX-License-Identifier: Apache-2.0
#pragma once

// `owner/model[@revision]` in the local Hugging Face cache, by the rules of huggingface_hub 1.28.
// Nothing is downloaded, and no snapshot is guessed: a revision that is not in the cache is
// source_not_found.

#include <functional>
#include <optional>
#include <ringload/export.hpp>
#include <string>
#include <string_view>

#include "base/fault.hpp"
#include "catalog/hub_address.hpp"
#include "catalog/model_folder.hpp"

namespace ringload::inline v0 {

// The value of an environment variable, or empty. A parameter, so that tests can replace it.
using environment = std::function<std::optional<std::string>(const std::string& name)>;
RINGLOAD_EXPORT environment process_environment();

// HF_HUB_CACHE, else HUGGINGFACE_HUB_CACHE, else $HF_HOME/hub, else
// $XDG_CACHE_HOME/huggingface/hub, else ~/.cache/huggingface/hub. `~` and `$VAR` inside the values
// are expanded; a variable that is empty counts as unset.
RINGLOAD_EXPORT result<std::string> cache_folder(const environment& variables);

// "models--owner--name"
RINGLOAD_EXPORT std::string repository_folder(const model_name& model);

// The snapshot of that revision.
RINGLOAD_EXPORT result<model_folder> open_cached_model(const std::string& cache,
                                                       const model_name& model);

}  // namespace ringload::inline v0
