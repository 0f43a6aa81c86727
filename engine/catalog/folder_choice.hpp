// SPDX-License-Identifier: Apache-2.0
#pragma once

// Chooses the files of a folder that form the checkpoint, by their names. Used for folders on the
// file system and in stores. Pure functions.

#include <ringload/export.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/fault.hpp"

namespace ringload::inline v0 {

struct folder_choice {
  std::string index;  // The index that lists the shards. Empty if there is no index.
  // The files of the checkpoint, sorted by their numbers (-0000x-of-0000y). Empty if `index` is
  // set.
  std::vector<std::string> files;
};

// Returns the first of the candidates below that the folder has. A series is a set of files whose
// names have the same stem, the same total y and the numbers 1 to y. If a file of a chosen series
// is missing, fails with errc::incomplete_series.
//
// 1. `model.safetensors.index.json`, then `model.safetensors`, then the series
//    `model-0000x-of-0000y.safetensors`
// 2. the only `*.safetensors.index.json`, the only series, or the only `*.safetensors`
// 3. as in step 1, with `pytorch_model` instead of `model`, and `.bin` instead of `.safetensors`
// 4. the only index, series or file, if all tensor files are of one kind (`.gguf`, `.pt`, ...)
// 5. `.metadata`, if the folder also has `.distcp` files and has no other tensor files
//
// In steps 2 and 4, an index is preferred to series and files. Fails with errc::ambiguous_source if
// two candidates are equal in rank, or if tensor files of several kinds are left for step 4. A
// series in step 1 or 3 is ambiguous if there is another series, or a variant such as
// `model.fp16.safetensors`. `.metadata` is ambiguous if there are other tensor files. A folder that
// contains deltas, such as "v1.delta.zt", is always ambiguous.
RINGLOAD_EXPORT result<folder_choice> choose_checkpoint(const std::vector<std::string>& names);

// Returns only the names of tensor files. Omits files in hidden sub-folders (".git"). Returns
// errc::not_a_checkpoint if no name is left. `names` must include the files of sub-folders.
result<std::vector<std::string>> choose_independent_files(std::vector<std::string> names);

// Returns true if the name has an extension of tensor files.
RINGLOAD_EXPORT bool is_checkpoint_file(std::string_view name) noexcept;

}  // namespace ringload::inline v0
