// SPDX-License-Identifier: Apache-2.0
#pragma once

// Chooses the files of a folder that are the checkpoint, by their names. Pure.

#include <ringload/export.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/fault.hpp"

namespace ringload::inline v0 {

struct folder_choice {
  std::string index;               // The index that names the shards; or, if that is empty,
  std::vector<std::string> files;  // the files themselves, in the order of a series.
};

// In this order: the index `model.safetensors.index.json`; `model.safetensors`; the one complete
// series `model-0000x-of-0000y.safetensors`; the only `*.safetensors.index.json`; the only series;
// the only `*.safetensors`. Without any of these, the same of `pytorch_model` and `.bin`; then, if
// all files of tensors are of one kind (`.gguf`, `.pt`, `.npz`, ...), its only index, series or
// file. Two candidates are ambiguous_source.
RINGLOAD_EXPORT result<folder_choice> choose_checkpoint(const std::vector<std::string>& names);

// Of all names in a folder and its sub-folders those of files of tensors, but for what lies in
// hidden sub-folders (".git"). not_a_checkpoint if there is none.
result<std::vector<std::string>> choose_independent_files(std::vector<std::string> names);

// Returns true if the extension of the name is an extension of tensor files.
RINGLOAD_EXPORT bool is_checkpoint_file(std::string_view name) noexcept;

}  // namespace ringload::inline v0
