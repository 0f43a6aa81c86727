// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a format turns its header into. Nothing below the formats knows which of them it was.

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

// A box of a tensor's elements, and their place in a stream. By dimension, outermost first. A
// stride of 0 repeats elements. The boxes of one tensor do not overlap.
struct piece {
  stored_stream stored;
  std::uint64_t first_byte = 0;  // In the decoded stream: of the element at `origin`.
  std::vector<std::uint64_t> origin;
  std::vector<std::uint64_t> extent;
  std::vector<std::uint64_t> stride_bytes;  // In the decoded stream.
};

// The layout of a tensor that is not simply row-major and little-endian.
struct stored_form {
  std::vector<piece> pieces;
  std::uint8_t swap_bytes = 0;  // Units that are byte-swapped: 2, 4 or 8; 0: none.
  // The value of elements that are in no piece; empty: zeros.
  std::vector<std::byte> fill;
};

// What the file says that the stored bytes of a tensor hash to.
struct stored_digest {
  digest_algorithm algorithm = digest_algorithm::crc32c;
  std::vector<std::byte> bytes;  // 4, the highest first, or 32.
  stored_stream of;              // Those bytes, as they are. The form of the tensor has no others.
};

// One tensor of one file. Extents lie inside the file and stand in file order. Those of one file
// may overlap where the format lets tensors share their bytes.
struct entry {
  std::string name;
  ringload::dtype dtype = dtype::u8;
  std::vector<std::uint64_t> shape;
  std::uint64_t offset = 0;  // From the beginning of the file; of the first byte stored.
  std::uint64_t bytes = 0;   // Of the tensor, dense.
  // Null: the tensor is the bytes [offset, offset + bytes) of the parsed file as they are.
  std::shared_ptr<const stored_form> stored;
  std::string type;  // A logical or block type: "q4_k", "complex64"; empty: dtype says it all.
  std::vector<std::uint64_t> original_shape;    // Of what `type` means; empty: shape.
  std::shared_ptr<const stored_digest> digest;  // Null: the file has none.
  ringload::attributes attributes = {};
};

// An object that is not dense, for instance sparse_csr: its parts are tensors named "name/part".
struct composite {
  std::string name;
  std::string layout;  // "sparse_csr", "sparse_coo", or what the file calls it.
  std::string type;
  std::vector<std::uint64_t> shape;
  std::vector<std::string> parts;  // Without the object's name.
  ringload::attributes attributes = {};
  std::string separator = "/";  // See composite_info::separator.
};

// An object that is not read. `why` says where in the file and which object.
struct unreadable_object {
  std::string name;
  fault why;
  bool is_left_out = false;  // See unreadable_info.
};

struct file_entries {
  std::vector<entry> tensors;
  std::vector<composite> composites;
  std::vector<unreadable_object> unreadable;
  attributes metadata;
  std::vector<std::string> notes;
  // Other files that hold tensors' bytes: paths relative to the parsed file's folder, checked to
  // stay in it.
  std::vector<std::string> files_beside;
};

}  // namespace ringload::inline v0
