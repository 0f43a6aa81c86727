// SPDX-License-Identifier: Apache-2.0
#pragma once

// Parses the JSON of a safetensors header, without checking the layout that it describes.

#include <cstdint>
#include <ringload/catalog.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fault.hpp"
#include "formats/catalog_entries.hpp"

namespace ringload::inline v0 {

// The bytes of the data section that a tensor claims, and where in the header. Small, because the
// layout check sorts these instead of the tensors.
struct claim {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint32_t tensor = 0;     // Index into safetensors_json::tensors.
  std::uint32_t file_byte = 0;  // Of the tensor's description.
};

struct safetensors_json {
  std::vector<entry> tensors;  // In the header's order; offset and bytes are not set yet.
  std::vector<claim> claims;   // One for each tensor that counts: not for one that a later one of
                               // the same name replaces, as the reference profile allows.
  std::vector<std::pair<std::string, std::string>> metadata;
};

// `text` is the header's JSON, valid UTF-8. No two claims are for one name.
result<safetensors_json> describe_header(std::string_view text, strictness strictness);

}  // namespace ringload::inline v0
