// SPDX-License-Identifier: Apache-2.0
#pragma once

// Finds and checks the files of a GGUF model that is split into several files. Each file stores its
// own number and the number of files.

#include <optional>
#include <ringload/export.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fault.hpp"
#include "catalog/assemble.hpp"

namespace ringload::inline v0 {

// If `name` is the name of the first file of a series ("x-00001-of-00003.gguf"), returns all files
// of the series. Otherwise returns an empty list. As in llama.cpp, the user names the first file to
// load the whole series.
RINGLOAD_EXPORT std::vector<std::string> gguf_series(std::string_view name);

// Returns a fault if the files contradict their metadata: `split.no`, `split.count` and
// `split.tensors.count`. A single file may be a part of a series only if its name has its number in
// the series. Ignores files of other formats, and files without these keys.
std::optional<fault> check_gguf_split(std::span<const file_content> files);

}  // namespace ringload::inline v0
