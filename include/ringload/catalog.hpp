// SPDX-License-Identifier: Apache-2.0
#pragma once

// The catalog of a checkpoint: the names, types and shapes of its tensors, and the location of
// their bytes. A catalog can be read without a loader and without a device.

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
  /// Refuses every file that violates the specification of its format, even if the reference
  /// implementation accepts the file. Also refuses a checkpoint whose names, shapes and metadata
  /// need too much memory: see `description_bytes_max`.
  strict,
  /// Accepts every safetensors file that the safetensors crate accepts. In .zt, PyTorch and HDF5
  /// files, unreadable objects are omitted. In GGUF files, names may have 255 bytes instead of 64.
  /// The memory for names, shapes and metadata has no limit: a header of 100 MB can need 1.5 GB.
  reference,
};

/// `strictness::strict` limits the memory for the names, shapes and metadata of a checkpoint. The
/// limit is the total size of its files, plus this number of bytes. Each tensor counts as at least
/// 512 bytes, and each metadata key counts as at least 256 bytes. If a checkpoint needs more
/// memory, opening or writing the checkpoint fails with `errc::header_too_large`.
inline constexpr std::uint64_t description_bytes_max = std::uint64_t{64} << 20;

/// The dtypes to use for NumPy arrays whose type has no name in NumPy. Arrays of the package
/// ml_dtypes store bfloat16 as "V2" and most 8-bit floats as "V1". These names state only the width
/// of an element. If no dtype is set for the width, opening the file fails with
/// `errc::unsupported_feature`. ml_dtypes stores float8_e5m2 as "f1". The name "f1" is accepted if
/// `one_byte` or `two_bytes` is set.
struct unnamed_dtypes {
  std::optional<dtype> one_byte;   // For "V1": a dtype of 8 bits, such as f8_e4m3fn.
  std::optional<dtype> two_bytes;  // For "V2": a dtype of 16 bits, such as bf16.
};

/// Options for reading the files of a checkpoint. A value of `strictness` converts implicitly to
/// read_options.
struct read_options {
  read_options() noexcept = default;
  /// Sets the strictness. No dtype is set for NumPy arrays without a type name.
  read_options(ringload::strictness how_strict) noexcept : strictness(how_strict) {}

  /// How strictly files are validated.
  ringload::strictness strictness = ringload::strictness::strict;
  unnamed_dtypes nameless;  // The dtypes to use for NumPy arrays without a type name.
};

/// The description of one tensor of a checkpoint.
struct tensor_info {
  std::string name;                   // The name of the tensor in UTF-8. May be empty.
  ringload::dtype dtype = dtype::u8;  // The type of the elements in the file.
  /// The sizes of the dimensions, outermost first. Empty for a scalar.
  std::vector<std::uint64_t> shape;
  std::uint32_t file = 0;    // The index of the file in catalog::files.
  std::uint64_t offset = 0;  // The offset of the first stored byte in the file.
  /// The size of the loaded tensor, which is dense, row-major and little-endian.
  std::uint64_t bytes = 0;

  /// How the bytes of the tensor are encoded in the file. If empty, the bytes [offset, offset +
  /// bytes) of the file are the bytes of the tensor. Otherwise, the encoding is a list of words,
  /// joined by '+', in the order of decoding:
  ///
  ///   - a codec: "deflate", "zlib", "zstd" or "varint"
  ///   - "shuffle" or "big_endian"
  ///   - "strided": the elements are not in row-major order, or have gaps between them
  ///   - "chunked": the file has the tensor in several rectangular parts
  ///   - "inline": the header contains the elements of the tensor
  ///   - "delta": the file is a delta and contains only the difference, see `ringload/delta.hpp`
  std::string encoding = {};
  /// The number of bytes that a load reads for the tensor. Several tensors may share bytes.
  std::uint64_t stored_bytes = 0;
  /// The logical type or the quantisation type of the elements, such as "q4_k". If empty, `dtype`
  /// describes the elements completely.
  std::string type = {};
  /// The shape in elements of `type`. Empty if this shape is equal to `shape`.
  std::vector<std::uint64_t> original_shape = {};
  /// The digest that the file has for the stored bytes, in the notation of a checksum list, such as
  /// "crc32c 9eba690a". If empty, the file has no digest of the tensor. `load_options::verify` can
  /// verify the digest.
  std::string digest = {};
  ringload::attributes attributes = {};  // The attributes of the tensor.
};

/// An object that is stored as several tensors, such as a sparse matrix or a quantised group. The
/// catalog lists each part as a tensor. The name of this tensor is name + separator + part, such as
/// "name/part".
struct composite_info {
  std::string name;    // The name of the object.
  std::string layout;  // The name of the layout in the file format, such as "sparse_csr".
  std::string type;    // The type of the object. Empty means the dtype of its values.
  std::vector<std::uint64_t> shape;      // The shape of the object.
  std::vector<std::string> parts;        // The names of the parts, without the name of the object.
  std::uint32_t file = 0;                // The index of the file in catalog::files.
  ringload::attributes attributes = {};  // The attributes of the object.
  /// The text between the name of the object and the name of the part. The text is "/", or several
  /// slashes if the file has another tensor with the name "name/part".
  std::string separator = "/";

  /// Returns the name of `part` in the catalog.
  std::string name_of(std::string_view part) const { return name + separator + std::string(part); }
};

/// An object that cannot be loaded. A load that selects this object fails with the error in `code`,
/// `place` and `reason`. Other loads are not affected. With `strictness::reference`, a load fails
/// only if the selection contains the exact name of the object, or a glob that matches the object
/// but no tensor. All other selections omit the object.
struct unreadable_info {
  std::string name;                     // The name of the object.
  std::uint32_t file = 0;               // The index of the file in catalog::files.
  boost::system::error_code code = {};  // The error code.
  std::string place = {};  // The file, the object, and the position of its description in the file.
  std::string reason = {};  // The invalid value, and the expected value.
  /// True if a load omits the object, as described above for `strictness::reference`.
  bool is_left_out = false;
};

/// One file of a checkpoint.
struct file_info {
  std::string path;         // The path that was opened. Relative if the source is a relative path.
  std::uint64_t bytes = 0;  // The size at the time of opening.
  std::string format = {};  // "safetensors", "npy", "npz", "pytorch", ...
  /// The number of bytes that were read to find the tensors. For safetensors, this is the size of
  /// the header with its length field. Headers of other formats are read in larger pieces, which
  /// can include bytes after the header. 0 for an external data file, and for an HDF5 file, whose
  /// header libhdf5 reads.
  std::uint64_t header_bytes = 0;
};

/// The contents of a checkpoint. The tensors are sorted by file and offset, which is the order of
/// the reads.
struct catalog {
  std::vector<file_info> files;                  // The files of the checkpoint.
  std::vector<tensor_info> tensors;              // All tensors that can be loaded.
  std::vector<composite_info> composites;        // Objects that consist of several tensors.
  std::vector<unreadable_info> unreadable = {};  // Objects that cannot be loaded.
  /// The metadata of the files, such as `__metadata__`, in the order of the files. If several
  /// shards have the same key with the same value, the key is listed once.
  attributes metadata;
  /// Warnings, one sentence each. A warning does not fail a load. Examples are a tensor that the
  /// index does not list, a wrong `total_size`, and a header of more than 25 MB.
  std::vector<std::string> notes;

  /// Returns the total size of all tensors.
  RINGLOAD_EXPORT std::uint64_t size_bytes() const noexcept;
};

}  // namespace ringload::inline v0
