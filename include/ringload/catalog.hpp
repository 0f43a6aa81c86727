// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a checkpoint holds, readable without loading it and without a device: names, types, shapes,
// and which bytes of which file each tensor is.

#include <cstdint>
#include <optional>
#include <ringload/dtype.hpp>
#include <ringload/export.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ringload::inline v0 {

/// How much a file may deviate from the letter of its format.
enum class profile : std::uint8_t {
  strict,     // Also refuses what the format's text forbids but its reference lets through.
  reference,  // Accepts exactly what the safetensors crate accepts.
};

/// One tensor of a checkpoint.
struct tensor_info {
  std::string name;  // UTF-8; may be empty, as the format allows.
  ringload::dtype dtype = dtype::u8;
  std::vector<std::uint64_t> shape;  // Row-major, outermost first. Empty for a scalar.
  std::uint32_t file = 0;            // Index into catalog::files.
  std::uint64_t offset = 0;          // Of the first byte, from the beginning of the file.
  std::uint64_t bytes = 0;
};

/// One file of a checkpoint.
struct file_info {
  std::string path;         // As opened: absolute or relative as the source was.
  std::uint64_t bytes = 0;  // Its size when it was opened.
};

/// The tensors stand in the order of (file, offset), which is the order they are read in.
struct catalog {
  std::vector<file_info> files;
  std::vector<tensor_info> tensors;
  /// `__metadata__` of the files, in the files' order. A key that several shards carry with the
  /// same value stands once.
  std::vector<std::pair<std::string, std::string>> metadata;
  /// What a careful person would want to know and no load fails for, one sentence each: tensors
  /// that the index does not list, a `total_size` that is wrong, a header of more than 25 MB.
  std::vector<std::string> notes;

  /// The sum of all tensors' bytes.
  RINGLOAD_EXPORT std::uint64_t bytes() const noexcept;
};

/// Reads the catalog of a checkpoint; no tensor's bytes are read. `source` is what
/// `loader::load_async` takes. Blocks on the file system. Throws `ringload::error`.
RINGLOAD_EXPORT catalog read_catalog(std::string_view source, profile strictness = profile::strict);

}  // namespace ringload::inline v0
