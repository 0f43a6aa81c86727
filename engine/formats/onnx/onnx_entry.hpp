// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/fault.hpp"
#include "formats/catalog_entries.hpp"
#include "formats/onnx/onnx_tensor.hpp"
#include "formats/text/input.hpp"

namespace ringload::inline v0 {

// The files with external data. The first file has the number 1.
struct onnx_files {
  std::vector<std::string> paths;
  std::unordered_map<std::string, std::uint32_t> numbers;
};

// Returns the entry of the tensor, without its name. If the values are in several ranges of the
// file, or are six-bit elements in int32_data, reads the values into memory.
result<entry> entry_of(const onnx_tensor& tensor, input& from, onnx_files& external_files);

}  // namespace ringload::inline v0
