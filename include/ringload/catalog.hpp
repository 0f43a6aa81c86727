// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a checkpoint holds: the tensors' names, types and shapes, and where their bytes are. Needs
// neither a load nor a device.

#include <cstdint>
#include <optional>
#include <ringload/attribute.hpp>
#include <ringload/dtype.hpp>
#include <ringload/error.hpp>
#include <ringload/export.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace ringload::inline v0 {

/// How strictly files are validated.
enum class strictness : std::uint8_t {
  strict,     // Also refuses what the format's text forbids but its reference accepts.
  reference,  // What the safetensors crate accepts; other formats leave out what is not read.
};

/// The dtypes of NumPy arrays whose type NumPy cannot name: bfloat16 and 8-bit floats of the
/// package ml_dtypes are stored as "V2" and "V1", which give only the width. Without the dtype
/// such an array is `errc::unsupported_feature`.
/// ("f1" is f8_e5m2 if either is given.)
struct unnamed_dtypes {
  std::optional<dtype> one_byte;   // One of 8 bits an element, such as f8_e4m3fn.
  std::optional<dtype> two_bytes;  // One of 16 bits, such as bf16.
};

/// How files are read; a `strictness` alone is one too.
struct read_options {
  read_options() noexcept = default;
  read_options(ringload::strictness how_strict) noexcept : strictness(how_strict) {}

  ringload::strictness strictness = ringload::strictness::strict;
  unnamed_dtypes nameless;
};

/// One tensor of a checkpoint.
struct tensor_info {
  std::string name;  // UTF-8; may be empty, as the format allows.
  ringload::dtype dtype = dtype::u8;
  std::vector<std::uint64_t> shape;  // Row-major, outermost first. Empty for a scalar.
  std::uint32_t file = 0;            // Index into catalog::files.
  std::uint64_t offset = 0;          // Of the first byte stored, from the beginning of the file.
  std::uint64_t bytes = 0;           // When loaded: dense, row-major, little-endian.

  /// How the tensor is encoded in the file. Empty: its bytes are [offset, offset + bytes) of the
  /// file. Otherwise words joined by '+', in the order of decoding: a codec ("deflate",
  /// "zlib", "zstd", "varint"), "shuffle", "big_endian", "strided" (elements in another
  /// order, or with gaps), "chunked" (in several boxes), "inline" (in the header, in the
  /// format's own form).
  std::string encoding = {};
  /// How many bytes are read for it; several tensors may share the same bytes.
  std::uint64_t stored_bytes = 0;
  /// The logical or block type of the elements where `dtype` is not enough, such as "q4_k".
  std::string type = {};
  std::vector<std::uint64_t> original_shape = {};  // Of what `type` means; empty: that is `shape`.
  /// What the file says its stored bytes hash to, as in a manifest: "crc32c 9eba690a". Empty: it
  /// says nothing. `load_options::verify` compares it.
  std::string digest = {};
  ringload::attributes attributes = {};
};

/// An object that is stored as several tensors: a sparse matrix, a quantised group. The tensors are
/// in the catalog as name + separator + part: "name/part".
struct composite_info {
  std::string name;
  std::string layout;  // "sparse_csr", "sparse_coo", "group", as its format calls it.
  std::string type;    // Of the whole; empty: the dtype of its values.
  std::vector<std::uint64_t> shape;
  std::vector<std::string> parts;  // Without the name before them.
  std::uint32_t file = 0;          // Index into catalog::files.
  ringload::attributes attributes = {};
  /// "/", or more of them if the file has another tensor called "name/part".
  std::string separator = "/";

  /// The name of that part in the catalog.
  std::string name_of(std::string_view part) const { return name + separator + std::string(part); }
};

/// An object of a file that cannot be loaded. A load that selects it fails with this error; a load
/// that selects other tensors does not. With `strictness::reference`, only a selection of its very
/// name fails, and all others leave it out.
struct unreadable_info {
  std::string name;
  std::uint32_t file = 0;  // Index into catalog::files.
  boost::system::error_code code = {};
  std::string place = {};   // The file, the object, and where the file describes it.
  std::string reason = {};  // What is wrong with which value, and what was expected.
  bool is_left_out = false;
};

/// One file of a checkpoint.
struct file_info {
  std::string path;         // As opened: absolute or relative as the source was.
  std::uint64_t bytes = 0;  // Its size when it was opened.
  std::string format = {};  // "safetensors", "npy", "npz", "pytorch", ...
};

/// Tensors are sorted by (file, offset), which is the order they are read in.
struct catalog {
  std::vector<file_info> files;
  std::vector<tensor_info> tensors;
  std::vector<composite_info> composites;
  std::vector<unreadable_info> unreadable = {};
  /// Metadata of the files, such as `__metadata__`, in the files' order. A key that several shards
  /// have with the same value is here once.
  attributes metadata;
  /// Warnings that fail no load, one sentence each: tensors that the index does not list, a wrong
  /// `total_size`, a header of more than 25 MB.
  std::vector<std::string> notes;

  /// The sum of all tensors' bytes.
  RINGLOAD_EXPORT std::uint64_t size_bytes() const noexcept;
};

/// Reads the catalog of a checkpoint; no tensor's bytes are read. `source` is what
/// `loader::load_async` takes. Blocks on the file system. Throws `ringload::error`.
RINGLOAD_EXPORT catalog read_catalog(std::string_view source, const read_options& how = {});

}  // namespace ringload::inline v0
