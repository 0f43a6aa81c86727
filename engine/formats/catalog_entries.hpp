// SPDX-License-Identifier: Apache-2.0
#pragma once

// The parsed content of a checkpoint file. The parsers of all formats return these types.

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

// A box of a tensor's elements, and the place of these elements in a stream. The outermost
// dimension is first. A stride of 0 repeats elements. The boxes of one tensor must not overlap.
struct piece {
  stored_stream stored;
  std::uint64_t first_byte = 0;  // Offset in the decoded stream of the element at `origin`.
  std::vector<std::uint64_t> origin;
  std::vector<std::uint64_t> extent;
  std::vector<std::uint64_t> stride_bytes;  // In the decoded stream.
};

// How a tensor is stored if it is not a single range of row-major, little-endian elements.
struct stored_form {
  std::vector<piece> pieces;
  // Size of the units whose bytes are swapped: 2, 4 or 8. 0 for no swap.
  std::uint8_t swap_bytes = 0;
  // The value of the elements that are in no piece. Empty for zeros.
  std::vector<std::byte> fill;
};

// A digest that the file contains.
struct stored_digest {
  digest_algorithm algorithm = digest_algorithm::crc32c;
  std::vector<std::byte> bytes;  // 4 bytes with the most significant byte first, or 32 bytes.
  // The stored bytes that the digest covers. All pieces of the tensor are in this stream.
  stored_stream stream;
};

// One tensor of one file. A range of the parsed file is inside that file. Ranges of other files
// (external_files) are checked when the catalog is assembled. Ranges may overlap if the format
// allows tensors to share bytes.
struct entry {
  std::string name;
  ringload::dtype dtype = dtype::u8;
  std::vector<std::uint64_t> shape;
  std::uint64_t offset = 0;  // Offset of the first stored byte in the file.
  std::uint64_t bytes = 0;   // Size of the contiguous tensor.
  // Null if the tensor is exactly the bytes [offset, offset + bytes) of the parsed file.
  std::shared_ptr<const stored_form> stored;
  // The name of a logical type or of a quantised block: "q4_k", "complex64". Empty if `dtype` is
  // the type.
  std::string type;
  // The shape in elements of `type`. Empty if `shape` is the shape.
  std::vector<std::uint64_t> original_shape;
  std::shared_ptr<const stored_digest> digest;  // Null if the file has no digest of the tensor.
  ringload::attributes attributes = {};
};

// An object that consists of several tensors, for example a sparse_csr matrix. The names of these
// tensors have the form "name/part".
struct composite {
  std::string name;
  std::string layout;  // "sparse_csr", "sparse_coo", or another name from the file.
  std::string type;
  std::vector<std::uint64_t> shape;
  std::vector<std::string> parts;  // Names of the parts, without the name of the object.
  ringload::attributes attributes = {};
  std::string separator = "/";
};

// An object that cannot be read. `cause` has the position in the file and the name of the object.
struct unreadable_object {
  std::string name;
  fault cause;
  bool is_left_out = false;
};

struct file_entries {
  std::vector<entry> tensors;
  std::vector<composite> composites;
  std::vector<unreadable_object> unreadable;
  attributes metadata;
  std::vector<std::string> notes;
  // Other files with bytes of tensors. The paths are relative to the folder of the parsed file. The
  // parser has checked that the paths do not leave this folder.
  std::vector<std::string> external_files;
};

}  // namespace ringload::inline v0
