// SPDX-License-Identifier: Apache-2.0
#pragma once

// Parses the JSON of a safetensors header. header_layout.hpp checks the ranges of the tensors.

#include <cstdint>
#include <ringload/catalog.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fault.hpp"
#include "formats/catalog_entries.hpp"

namespace ringload::inline v0 {

// The range of bytes that the header states for a tensor. The struct is small, because
// header_layout.cpp sorts claims instead of tensors.
struct claim {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint32_t tensor = 0;     // Index in safetensors_json::tensors.
  std::uint32_t file_byte = 0;  // Position of the tensor's description in the file.
};

struct safetensors_json {
  std::vector<entry> tensors;  // In the order of the header. `offset` and `bytes` are not set.
  // One claim for each tensor name. With `strictness::reference`, `tensors` may have several
  // tensors of the same name. Only the last of these tensors has a claim.
  std::vector<claim> claims;
  std::vector<std::pair<std::string, std::string>> metadata;
};

// `text` must be the header's JSON in valid UTF-8.
result<safetensors_json> describe_header(std::string_view text, std::uint64_t file_bytes,
                                         strictness strictness);

}  // namespace ringload::inline v0
