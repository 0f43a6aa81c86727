// SPDX-License-Identifier: Apache-2.0
#pragma once

// Describes the files that a save will write: their sizes, headers and the position of each tensor.
// Each file format has a function that computes a checkpoint_layout. All later steps are the same
// for all formats.
//
//   tensors, settings -> checkpoint_layout -> file_piece -> write_plan -> writes -> files
//                        (by the format)                 (write_plan.hpp)

#include <cstdint>
#include <ringload/dtype.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace ringload::inline v0 {

// A tensor that will be stored.
struct layout_tensor {
  std::string_view name;
  ringload::dtype dtype = dtype::u8;  // Element type in the file.
  std::vector<std::uint64_t> shape;
};

struct file_layout {
  // Name within the folder of the checkpoint. Empty if the checkpoint is a single file.
  std::string name;
  std::uint64_t bytes = 0;
  // The header of the file, or the whole content of an index file.
  std::string head;
  // The index, if the format has the index at the end of the file.
  std::string tail = {};
};

struct tensor_extent {
  std::uint32_t file = 0;  // Index in checkpoint_layout::files.
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

// The files of a checkpoint, and the tensors in the files. Two tensors with equal bytes may have
// the same extent. All other extents must not overlap. Bytes outside of tensors, heads and tails
// are zeros.
struct checkpoint_layout {
  std::vector<file_layout> files;
  std::vector<tensor_extent> tensors;  // In the order of the saved tensors.
};

// A range of a file, and the source of its bytes. The range receives the first bytes of the source.
// Sources are tensors, heads, tails and zeros. The creator of the pieces assigns a number to each
// source.
struct file_piece {
  std::uint64_t file_offset = 0;
  std::uint64_t bytes = 0;
  std::uint32_t file = 0;
  std::uint32_t source = 0;
};

}  // namespace ringload::inline v0
