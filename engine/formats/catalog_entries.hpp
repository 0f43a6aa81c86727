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

// A rectangular part of a tensor, and the location of its elements in a decoded stream. In each
// vector, the outermost dimension is first. A stride of 0 repeats elements. The pieces of one
// tensor must not overlap.
struct piece {
  stored_stream stored;
  std::uint64_t first_byte = 0;  // Offset of the element at `origin` in the decoded stream.
  std::vector<std::uint64_t> origin;
  std::vector<std::uint64_t> extent;
  std::vector<std::uint64_t> stride_bytes;  // Strides in the decoded stream.
};

// Describes a tensor that is not stored as one range of row-major, little-endian elements.
struct stored_form {
  std::vector<piece> pieces;
  // Size of the units whose bytes are swapped: 2, 4 or 8. 0 if no bytes are swapped.
  std::uint8_t swap_bytes = 0;
  // The value of the elements outside all pieces. Empty if this value is 0.
  std::vector<std::byte> fill;
};

// A digest that the file contains.
struct stored_digest {
  digest_algorithm algorithm = digest_algorithm::crc32c;
  std::vector<std::byte> bytes;  // CRC-32C: 4 bytes, big-endian. SHA-256: 32 bytes.
  // The stored bytes that the digest covers, before they are decoded. If the tensor has pieces,
  // each piece is decoded from these bytes.
  stored_stream stream;
};

// One tensor of a file. The parser checks the ranges in the parsed file. The ranges in other files
// (external_files) are checked when the catalog is assembled. Ranges of tensors may overlap.
struct entry {
  std::string name;
  ringload::dtype dtype = dtype::u8;
  std::vector<std::uint64_t> shape;
  std::uint64_t offset = 0;  // Offset of the first stored byte in the file.
  std::uint64_t bytes = 0;   // Size of the decoded tensor.
  // Null if the tensor is exactly the bytes [offset, offset + bytes) of the parsed file.
  std::shared_ptr<const stored_form> stored;
  // The name of a logical type or of a quantised type, for example "complex64" or "q4_k". Empty if
  // `dtype` describes the elements completely.
  std::string type;
  // The shape in elements of `type`. Empty if this shape is equal to `shape`.
  std::vector<std::uint64_t> original_shape;
  std::shared_ptr<const stored_digest> digest;  // Null if the file has no digest of the tensor.
  ringload::attributes attributes = {};
};

// An object that consists of several tensors, for example a sparse_csr matrix. The name of each of
// these tensors consists of `name`, `separator` and a part: "matrix/values".
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
  bool is_left_out = false;  // As in unreadable_info.
};

struct file_entries {
  std::vector<entry> tensors;
  std::vector<composite> composites;
  std::vector<unreadable_object> unreadable;
  attributes metadata;
  std::vector<std::string> notes;
  // Other files that contain bytes of tensors. The paths are relative to the folder of the parsed
  // file. The parser has checked that the paths do not leave this folder.
  std::vector<std::string> external_files;
};

}  // namespace ringload::inline v0
