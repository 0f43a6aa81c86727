// SPDX-License-Identifier: Apache-2.0
#pragma once

// NumPy's array format, versions 1.0 to 3.0: a Python dictionary with type, order and shape, then
// the elements. An array is a file (.npy) or a member of a zip archive (.npz).

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
  bool fortran_order = false;   // The first dimension varies fastest.
  std::uint8_t swap_bytes = 0;  // As in stored_form.
  std::uint64_t data_bytes = 0;
};

// Returns the number of bytes before the elements. `prefix` is the first npy_prefix_bytes of an
// array, or all bytes of a shorter one.
result<std::size_t> npy_header_end(std::span<const std::byte> prefix);

// `header` has exactly the bytes before the elements. Objects, text, dates and structures are
// unsupported_feature. Faults name the byte of the array.
result<npy_header> parse_npy_header(std::span<const std::byte> header, const read_options& options);

// Reads a file with one array, named `name`. In strict, the file must end at the array's end.
result<file_entries> parse_npy(input& from, std::string name, const read_options& options);

// Reads the arrays of an archive, named as their members without ".npy". Other members are left out
// with a note.
result<file_entries> parse_npz(input& from, const zip_directory& members,
                               const read_options& options);

}  // namespace ringload::inline v0
