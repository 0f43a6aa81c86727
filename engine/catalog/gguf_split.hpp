// SPDX-License-Identifier: Apache-2.0
#pragma once

// GGUF models in several files. Each file is complete and holds its number and the file count.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fault.hpp"
#include "catalog/assemble.hpp"

namespace ringload::inline v0 {

// All files of the series whose first one that name is: "x-00001-of-00003.gguf". Empty for any
// other name. The first stands for all, as in llama.cpp.
std::vector<std::string> gguf_series(std::string_view name);

// Whether files that make a checkpoint together are those that their keys `split.no`, `split.count`
// and `split.tensors.count` say. Files of other formats, and without these keys, are left alone.
std::optional<fault> check_gguf_split(std::span<const file_content> files);

}  // namespace ringload::inline v0
