// SPDX-License-Identifier: Apache-2.0
#pragma once

// Parses NumPy arrays of format version 1.0 to 3.0. An array consists of a header and the elements.
// The header is a Python dictionary with type, order and shape. An array is a file (.npy) or a
// member of a zip archive (.npz).

#include <cstddef>
#include <cstdint>
#include <optional>
#include <ringload/catalog.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/fault.hpp"
#include "formats/catalog_entries.hpp"
#include "formats/text/input.hpp"
#include "formats/zip/zip.hpp"

namespace ringload::inline v0 {

inline constexpr std::size_t npy_prefix_bytes = 12;
inline constexpr std::size_t npy_header_bytes_max = std::size_t{64} << 10;

struct npy_header {
  ringload::dtype dtype = dtype::u8;
  std::vector<std::uint64_t> shape;
  bool fortran_order = false;   // True if the first dimension varies fastest.
  std::uint8_t swap_bytes = 0;  // As in `stored_form`.
  std::uint64_t data_bytes = 0;
};

// Returns the number of bytes before the elements. `prefix` must be the first npy_prefix_bytes
// bytes of an array, or all bytes of a shorter array.
result<std::size_t> npy_header_end(std::span<const std::byte> prefix);

// `header` must be exactly the bytes before the elements. Returns errc::unsupported_feature for
// objects, text, dates and structures. A fault states the byte offset in the array.
result<npy_header> parse_npy_header(std::span<const std::byte> header, const read_options& options);

// Reads a file with one array. `name` is the name of the tensor. With `strictness::strict`, the
// array must end at the end of the file.
result<file_entries> parse_npy(input& from, std::string name, const read_options& options);

// Reads the arrays of an archive. The name of a tensor is the name of its member without ".npy".
// Other members are omitted, with a note.
result<file_entries> parse_npz(input& from, const zip_directory& members,
                               const read_options& options);

}  // namespace ringload::inline v0
