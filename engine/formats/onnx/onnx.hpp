// SPDX-License-Identifier: Apache-2.0
#pragma once

// ONNX models: protocol buffers with tensors in them, as initializers of graphs and as attributes
// of nodes, in graphs inside of nodes and in functions. A tensor without a name of its own has that
// of its node's output. Those of inner graphs have the path to them before their name: of each node
// its first output, and the attribute:
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

// Of the text that a model's metadata makes, and of values that have to be held in memory.
inline constexpr std::uint64_t onnx_metadata_bytes_max = std::uint64_t{16} << 20;
inline constexpr std::size_t onnx_tensors_max = 250'000;
inline constexpr std::uint64_t onnx_values_bytes_max = std::uint64_t{16} << 20;

// Of all names with the paths before them: one long path may stand before many names.
inline constexpr std::uint64_t onnx_name_bytes_max = std::uint64_t{16} << 20;

// Elements of less than a byte land as they are stored, the first in the lowest bits: one dimension
// of bytes, with `type` ("u4") and `original_shape`. Tensors of strings are left out with a note.
// External data is in `files_beside`; that it lies in those files is checked where their sizes are
// known, when the catalog is assembled. Both profiles accept the same. Faults name the tensor and
// the byte of the file; the caller adds the file.
result<file_entries> parse_onnx(input& from, strictness strictness);

}  // namespace ringload::inline v0
