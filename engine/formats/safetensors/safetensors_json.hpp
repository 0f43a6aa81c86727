// SPDX-License-Identifier: Apache-2.0
#pragma once

// Parses the JSON of a safetensors header but does not check the layout.

#include <cstdint>
#include <ringload/catalog.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fault.hpp"
#include "formats/catalog_entries.hpp"

namespace ringload::inline v0 {

// The bytes of the data section that a tensor claims, and the position in the header. The struct is
// small, because the layout check sorts claims instead of tensors.
struct claim {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint32_t tensor = 0;     // Index into safetensors_json::tensors.
  std::uint32_t file_byte = 0;  // Position of the tensor's description.
};

struct safetensors_json {
  std::vector<entry> tensors;  // In header order. Offset and bytes are not set.
  // One claim for each tensor. A tensor that a later tensor of the same name replaces has no claim;
  // only the reference profile allows this.
  std::vector<claim> claims;
  std::vector<std::pair<std::string, std::string>> metadata;
};

// `text` is the header's JSON in valid UTF-8. The claims have unique names.
result<safetensors_json> describe_header(std::string_view text, strictness strictness);

}  // namespace ringload::inline v0
