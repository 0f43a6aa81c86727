// SPDX-License-Identifier: Apache-2.0
#pragma once

// The parsed content of a checkpoint file, in the same types for all formats.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <ringload/catalog.hpp>
#include <ringload/verify.hpp>
#include <string>
#include <vector>

#include "base/fault.hpp"
#include "formats/codec/stored_stream.hpp"

namespace ringload::inline v0 {

// A box of a tensor's elements, and the place of the elements in a stream. Dimensions are listed
// outermost first. A stride of 0 repeats elements. The boxes of one tensor do not overlap.
struct piece {
  stored_stream stored;
  std::uint64_t first_byte = 0;  // Position of the element at `origin` in the decoded stream.
  std::vector<std::uint64_t> origin;
  std::vector<std::uint64_t> extent;
  std::vector<std::uint64_t> stride_bytes;  // In the decoded stream.
};

// The layout of a tensor that is not simply row-major and little-endian.
struct stored_form {
  std::vector<piece> pieces;
  std::uint8_t swap_bytes = 0;  // Size of the units that are byte-swapped: 2, 4 or 8. 0: no swap.
  // The value of the elements that no piece contains. Empty: zeros.
  std::vector<std::byte> fill;
};

// The digest that the file states for the stored bytes of a tensor.
struct stored_digest {
  digest_algorithm algorithm = digest_algorithm::crc32c;
  std::vector<std::byte> bytes;  // 4 bytes, most significant first, or 32 bytes.
  stored_stream stream;  // The hashed bytes as stored. All pieces of the tensor use this stream.
};

// One tensor of one file. Extents are inside the file and sorted by offset. Extents may overlap if
// the format lets tensors share bytes.
struct entry {
  std::string name;
  ringload::dtype dtype = dtype::u8;
  std::vector<std::uint64_t> shape;
  std::uint64_t offset = 0;  // Position of the first stored byte in the file.
  std::uint64_t bytes = 0;   // Size of the dense tensor.
  // Null: the tensor is exactly the bytes [offset, offset + bytes) of the parsed file.
  std::shared_ptr<const stored_form> stored;
  std::string type;  // A logical or block type: "q4_k", "complex64". Empty: see dtype.
  std::vector<std::uint64_t> original_shape;    // Shape in elements of `type`. Empty: `shape`.
  std::shared_ptr<const stored_digest> digest;  // Null: the file states no digest.
  ringload::attributes attributes = {};
};

// An object that is not dense, for instance sparse_csr. The parts are tensors named "name/part".
struct composite {
  std::string name;
  std::string layout;  // "sparse_csr", "sparse_coo", or another name from the file.
  std::string type;
  std::vector<std::uint64_t> shape;
  std::vector<std::string> parts;  // Without the object's name.
  ringload::attributes attributes = {};
  std::string separator = "/";  // See composite_info::separator.
};

// An object that is not read. `cause` contains the position in the file and the object's name.
struct unreadable_object {
  std::string name;
  fault cause;
  bool is_left_out = false;  // See unreadable_info.
};

struct file_entries {
  std::vector<entry> tensors;
  std::vector<composite> composites;
  std::vector<unreadable_object> unreadable;
  attributes metadata;
  std::vector<std::string> notes;
  // Other files that contain bytes of tensors. The paths are relative to the parsed file's folder
  // and were checked to stay inside the folder.
  std::vector<std::string> files_beside;
};

}  // namespace ringload::inline v0
