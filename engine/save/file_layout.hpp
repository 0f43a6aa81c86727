// SPDX-License-Identifier: Apache-2.0
#pragma once

// The layout of files to be written. The writer of a format is a function from tensors and settings
// to a checkpoint_layout; the code below it does not depend on formats.
//
//   tensors, settings -> checkpoint_layout -> file_piece -> write_plan -> writes -> files
//                        (by the format)                 (write_plan.hpp)

#include <cstdint>
#include <ringload/dtype.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace ringload::inline v0 {

// A tensor for a layout.
struct layout_tensor {
  std::string_view name;
  ringload::dtype dtype = dtype::u8;  // The stored type.
  std::vector<std::uint64_t> shape;
};

struct file_layout {
  std::string name;         // Within the checkpoint's folder. Empty: the path of the request.
  std::uint64_t bytes = 0;  // Size of the whole file.
  std::string head;         // The first bytes: the header, or the whole index.
  std::string tail = {};    // The last bytes, for a format with its manifest at the end.
};

struct tensor_extent {
  std::uint32_t file = 0;  // Index in checkpoint_layout::files.
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

// Extents must not overlap, except for tensors with the same bytes. Uncovered bytes are zeros.
struct checkpoint_layout {
  std::vector<file_layout> files;
  std::vector<tensor_extent> tensors;  // In the order of the given tensors.
};

// A piece of a file that receives the first bytes of one source. The creator of the pieces numbers
// the sources: tensor bytes, headers, zeros.
struct file_piece {
  std::uint64_t file_offset = 0;
  std::uint64_t bytes = 0;
  std::uint32_t file = 0;
  std::uint32_t source = 0;
};

}  // namespace ringload::inline v0
