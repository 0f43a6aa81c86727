// SPDX-License-Identifier: Apache-2.0
#pragma once

// Finds the tensors of an ONNX model in its graphs, nodes and functions. Used by parse_onnx().

#include <cstdint>
#include <deque>
#include <ringload/catalog.hpp>
#include <string>
#include <utility>
#include <vector>

#include "formats/onnx/onnx_tensor.hpp"
#include "formats/text/input_cursor.hpp"

namespace ringload::inline v0 {

// A tensor, and the candidates for its name.
struct onnx_candidate {
  onnx_tensor tensor;
  std::string path;      // Prefix of the name. Empty, or a path that ends with '/'.
  std::string fallback;  // The name if tensor.name is empty or in use. May be empty.
  // True for an initializer. Every initializer in onnx_model::tensors has a name.
  bool initializer = false;
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
  // In file order. A deque does not move its elements when it grows.
  std::deque<onnx_candidate> tensors;
  std::vector<onnx_sparse> sparse;
  std::vector<std::pair<std::string, std::string>> metadata;
  bool metadata_left_out = false;
  std::uint64_t unnamed = 0;  // Number of initializers without a name, which are left out.
};

// `in` must contain the whole file. After a failure, returns false, and `in` has the fault.
bool read_onnx_model(input_cursor& in, strictness strictness, onnx_model& out);

}  // namespace ringload::inline v0
