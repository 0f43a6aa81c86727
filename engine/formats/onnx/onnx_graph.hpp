// SPDX-License-Identifier: Apache-2.0
#pragma once

// Where in an ONNX model tensors stand: a walk over graphs, nodes and functions.

#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "formats/onnx/onnx_tensor.hpp"
#include "formats/text/input_cursor.hpp"

namespace ringload::inline v0 {

// A tensor, and what it may be called.
struct onnx_found {
  onnx_tensor tensor;
  std::string path;          // Before either name; empty, or it ends with '/'.
  std::string fallback;      // Where the tensor has no name of its own; empty: there is none.
  bool initializer = false;  // It has a name.
};

struct onnx_sparse {
  std::string path;
  std::string fallback;
  onnx_tensor values;  // Its name is that of the whole.
  onnx_tensor indices;
  std::vector<std::uint64_t> dims;
  std::uint64_t file_byte = 0;
};

struct onnx_model {
  std::deque<onnx_found> tensors;  // In the order of the file. A vector would move them to grow.
  std::vector<onnx_sparse> sparse;
  std::vector<std::pair<std::string, std::string>> metadata;
  bool metadata_left_out = false;
  std::uint64_t unnamed = 0;  // Initializers that nothing can refer to.
};

// False: `in`, which is the whole file, says why.
bool read_onnx_model(input_cursor& in, onnx_model& out);

}  // namespace ringload::inline v0
