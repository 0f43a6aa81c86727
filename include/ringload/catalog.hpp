// SPDX-License-Identifier: Apache-2.0
#pragma once

// The catalog of a checkpoint: names, types and shapes of tensors, and the location of their bytes.
// Requires neither a load nor a device.

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
  strict,  // Also refuses files that violate the format's text but that its reference accepts.
  /// Accepts what the safetensors crate accepts. For other formats, unreadable objects are left
  /// out.
  reference,
};

/// The dtypes of NumPy arrays whose type NumPy cannot name. bfloat16 and the 8-bit floats of the
/// package ml_dtypes are stored as "V2" and "V1", which give only the width. Without a dtype, such
/// an array is `errc::unsupported_feature`. ("f1" is f8_e5m2 if either dtype is set.)
struct unnamed_dtypes {
  std::optional<dtype> one_byte;   // A dtype of 8 bits, such as f8_e4m3fn.
  std::optional<dtype> two_bytes;  // A dtype of 16 bits, such as bf16.
};

/// Options for reading files. A `strictness` converts to read_options.
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
  std::uint64_t offset = 0;          // Offset of the first stored byte in the file.
  std::uint64_t bytes = 0;           // Size after loading: dense, row-major, little-endian.

  /// The encoding of the tensor in the file. Empty: the tensor consists of the bytes [offset,
  /// offset + bytes) of the file. Otherwise words joined by '+', in the order of decoding: a codec
  /// ("deflate", "zlib", "zstd", "varint"), "shuffle", "big_endian", "strided" (elements in another
  /// order, or with gaps), "chunked" (several boxes), "inline" (in the header, in the format's own
  /// form).
  std::string encoding = {};
  /// The number of bytes that are read for the tensor. Several tensors may share bytes.
  std::uint64_t stored_bytes = 0;
  /// The logical type or block type of the elements if `dtype` is not sufficient, such as "q4_k".
  std::string type = {};
  std::vector<std::uint64_t> original_shape = {};  // The shape of `type`; empty: `shape`.
  /// The digest of the stored bytes according to the file, in the notation of a manifest: "crc32c
  /// 9eba690a". Empty: the file has no digest. `load_options::verify` checks the digest.
  std::string digest = {};
  ringload::attributes attributes = {};
};

/// An object that is stored as several tensors: a sparse matrix, a quantised group. The tensors are
/// in the catalog as name + separator + part: "name/part".
struct composite_info {
  std::string name;
  std::string layout;  // The format's name: "sparse_csr", "sparse_coo", "group".
  std::string type;    // The type of the object; empty: the dtype of its values.
  std::vector<std::uint64_t> shape;
  std::vector<std::string> parts;  // Names without the object's name.
  std::uint32_t file = 0;          // Index into catalog::files.
  ringload::attributes attributes = {};
  /// "/", or several slashes if the file has another tensor called "name/part".
  std::string separator = "/";

  /// Returns the name of `part` in the catalog.
  std::string name_of(std::string_view part) const { return name + separator + std::string(part); }
};

/// An object of a file that cannot be loaded. A load that selects the object fails with this error.
/// Other loads do not fail. With `strictness::reference`, only a selection of the exact name fails,
/// and all other selections leave the object out.
struct unreadable_info {
  std::string name;
  std::uint32_t file = 0;  // Index into catalog::files.
  boost::system::error_code code = {};
  std::string place = {};   // The file, the object, and where the file describes it.
  std::string reason = {};  // The wrong value, and the expected value.
  bool is_left_out = false;
};

/// One file of a checkpoint.
struct file_info {
  std::string path;         // The path as opened: absolute or relative, like the source.
  std::uint64_t bytes = 0;  // The size at the time of opening.
  std::string format = {};  // "safetensors", "npy", "npz", "pytorch", ...
};

/// Tensors are sorted by (file, offset), which is the order of reading.
struct catalog {
  std::vector<file_info> files;
  std::vector<tensor_info> tensors;
  std::vector<composite_info> composites;
  std::vector<unreadable_info> unreadable = {};
  /// Metadata of the files, such as `__metadata__`, in the order of the files. If several shards
  /// have a key with the same value, the key appears once.
  attributes metadata;
  /// Warnings, one sentence each: tensors that the index does not list, a wrong `total_size`, a
  /// header of more than 25 MB. Warnings do not fail a load.
  std::vector<std::string> notes;

  /// Returns the sum of all tensor sizes.
  RINGLOAD_EXPORT std::uint64_t size_bytes() const noexcept;
};

/// Reads the catalog of a checkpoint, without the tensors' bytes. `source` is an argument of
/// `loader::load_async`. Blocks on the file system. Throws `ringload::error`.
RINGLOAD_EXPORT catalog read_catalog(std::string_view source, const read_options& options = {});

}  // namespace ringload::inline v0
