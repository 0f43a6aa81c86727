// SPDX-License-Identifier: Apache-2.0
#pragma once

// ONNX models: protocol buffers with tensors in them, as initializers of graphs and as attributes
// of nodes, in graphs inside of nodes and in functions. A tensor without a name has the name of its
// node's output. The name of a tensor in an inner graph has a path as prefix: the first output of
// each outer node, and the attribute:
//
//   encoder.weight                        an initializer of the graph
//   Constant_12_output                    the value of a Constant node
//   If_3_output/then_branch/h.weight      an initializer of the branch of a node

#include <cstdint>
#include <ringload/catalog.hpp>

#include "base/fault.hpp"
#include "formats/catalog_entries.hpp"
#include "formats/text/input.hpp"

namespace ringload::inline v0 {

// Limits for the text of a model's metadata, and for values that must be held in memory.
inline constexpr std::uint64_t onnx_metadata_bytes_max = std::uint64_t{16} << 20;
inline constexpr std::size_t onnx_tensors_max = 250'000;
inline constexpr std::uint64_t onnx_values_bytes_max = std::uint64_t{16} << 20;

// Limit for all names with their paths: many names may have the same long path.
inline constexpr std::uint64_t onnx_name_bytes_max = std::uint64_t{16} << 20;

// Elements smaller than a byte become one dimension of stored bytes, with `type` ("u4") and
// `original_shape`. The first element is in the lowest bits. Tensors of strings are left out with a
// note. Files with external data are in `files_beside`. The assembly of the catalog checks that the
// extents are inside these files. Both profiles accept the same files. Faults name the tensor and
// the byte of the file. The caller adds the file name.
result<file_entries> parse_onnx(input& from, strictness strictness);

}  // namespace ringload::inline v0
