// SPDX-License-Identifier: Apache-2.0
#pragma once

// Parses ONNX models, which are messages of protocol buffers. A tensor is an initializer of a
// graph, or the value of a node's attribute. Attributes may also contain inner graphs. A value
// without a name gets the name of its node's output. If the node is not a Constant, '/' and the
// name of the attribute follow. An initializer without a name is left out. In an inner graph, each
// name begins with a path: the first output and the attribute of each enclosing node. Examples:
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
// `entry::type` (such as "u4") and `entry::original_shape` describe the elements. In each byte, the
// first element is in the lowest bits. Tensors of strings are left out with a note.
// `external_files` lists the files with external data. The ranges in these files are checked when
// the catalog is assembled. `strictness` affects only the limit for names, shapes and metadata (see
// description_budget). A fault states the tensor and the byte offset. The caller must add the name
// of the file.
result<file_entries> parse_onnx(input& from, strictness strictness);

}  // namespace ringload::inline v0
