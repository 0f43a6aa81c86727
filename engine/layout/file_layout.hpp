// SPDX-License-Identifier: Apache-2.0
#pragma once

// What is written where. A format that is written is a function from tensors and settings to this;
// below it nothing knows of formats.
//
//   tensors, settings -> checkpoint_layout -> file_piece -> write_plan -> writes -> files
//                        (by the format)                 (write_plan.hpp)

#include <cstdint>
#include <ringload/dtype.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace ringload::inline v0 {

// A tensor, as a layout sees it.
struct layout_tensor {
  std::string_view name;
  ringload::dtype dtype = dtype::u8;  // As stored.
  std::vector<std::uint64_t> shape;
};

struct file_layout {
  std::string name;         // Within the checkpoint's folder. Empty: the path that was ordered.
  std::uint64_t bytes = 0;  // The whole file.
  std::string head;         // Its first bytes: the header, or all of an index.
  std::string tail = {};    // Its last bytes, of a format that has its manifest there.
};

struct tensor_extent {
  std::uint32_t file = 0;  // Index into checkpoint_layout::files.
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

// No two overlap, but for tensors that are to have the very same bytes; what nothing fills is
// zeros.
struct checkpoint_layout {
  std::vector<file_layout> files;
  std::vector<tensor_extent> tensors;  // By tensor given.
};

// A piece of a file: the first bytes of one source, in order. Sources are numbered by who makes
// pieces: a tensor's bytes, a header, zeros.
struct file_piece {
  std::uint64_t file_offset = 0;
  std::uint64_t bytes = 0;
  std::uint32_t file = 0;
  std::uint32_t source = 0;
};

}  // namespace ringload::inline v0
