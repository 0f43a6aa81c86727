// SPDX-License-Identifier: Apache-2.0
#pragma once

// Parses ONNX models. A model consists of protocol buffers. The tensors are initializers of graphs
// and attributes of nodes. Nodes and functions may contain graphs with more tensors. A tensor
// without a name is named after the output of its node. In an inner graph, the name begins with a
// path: the first output and the attribute of each enclosing node. Examples:
//
//   encoder.weight                        an initializer of the graph
//   Constant_12_output                    the value of a Constant node
//   If_3_output/then_branch/h.weight      an initializer of the branch of a node

#include <ringload/catalog.hpp>

#include "base/fault.hpp"
#include "formats/catalog_entries.hpp"
#include "formats/text/input.hpp"

namespace ringload::inline v0 {

// If the elements of a tensor have fewer than 8 bits, the shape is one dimension of stored bytes.
// The entry's `type` (such as "u4") and `original_shape` describe the elements. The first element
// is in the lowest bits. Tensors of strings are left out with a note. `external_files` has the
// files with external data. When the catalog is assembled, the ranges in these files are checked.
// Both values of `strictness` accept the same files. A fault has the tensor and the byte offset.
// The caller must add the name of the file.
result<file_entries> parse_onnx(input& from, strictness strictness);

}  // namespace ringload::inline v0
