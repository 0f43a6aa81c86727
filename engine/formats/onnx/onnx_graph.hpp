// SPDX-License-Identifier: Apache-2.0
#pragma once

// Finds the tensors of an ONNX model: walks over graphs, nodes and functions.

#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "formats/onnx/onnx_tensor.hpp"
#include "formats/text/input_cursor.hpp"

namespace ringload::inline v0 {

// A tensor and its candidate names.
struct onnx_found {
  onnx_tensor tensor;
  std::string path;          // Prefix of both names. Empty, or ends with '/'.
  std::string fallback;      // Name if the tensor has no name. May be empty.
  bool initializer = false;  // An initializer has a name.
};

struct onnx_sparse {
  std::string path;
  std::string fallback;
  onnx_tensor values;  // Has the name of the sparse tensor.
  onnx_tensor indices;
  std::vector<std::uint64_t> dims;
  std::uint64_t file_byte = 0;
};

struct onnx_model {
  std::deque<onnx_found> tensors;  // In file order. A vector would move its elements to grow.
  std::vector<onnx_sparse> sparse;
  std::vector<std::pair<std::string, std::string>> metadata;
  bool metadata_left_out = false;
  std::uint64_t unnamed = 0;  // Number of initializers without a name.
};

// `in` is the whole file. Returns false after a failure, and `in` then has the fault.
bool read_onnx_model(input_cursor& in, onnx_model& out);

}  // namespace ringload::inline v0
