// SPDX-License-Identifier: Apache-2.0
#pragma once

// Converts an object of a .zt manifest to tensors, and element types to their .zt names.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fault.hpp"
#include "base/range.hpp"
#include "formats/catalog_entries.hpp"

namespace ringload::inline v0 {

// A contiguous range of stored bytes, as declared in the manifest.
struct zt_component {
  std::string name;
  std::uint64_t manifest_byte = 0;
  std::optional<ringload::dtype> dtype;
  std::string type;  // The logical type; empty: the same as dtype.
  std::optional<std::uint64_t> offset;
  std::optional<std::uint64_t> length;  // The stored length.
  std::optional<std::uint64_t> uncompressed_length;
  bool zstd = false;
  std::uint8_t swap_bytes = 0;
  std::string digest;  // "algorithm:value"; empty: none.
};

struct zt_object {
  std::string name;
  std::uint64_t manifest_byte = 0;
  std::optional<std::string> format;
  std::optional<std::vector<std::uint64_t>> shape;
  ringload::attributes attributes;
  range attribute_bytes;           // Extent of the attribute map in the file; empty: no map.
  std::string encoded_attributes;  // The attribute map as CBOR, for writing.
  std::optional<std::vector<zt_component>> components;
  // The object was read from a file. Fewer rules apply than for an object to be written.
  bool from_file = false;
  std::optional<fault> unreadable;  // Why an object from a file cannot be read.
};

// The rules of a file's version for its blobs: allowed offsets and stated lengths.
struct zt_blobs {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t alignment = 1;
  // Versions 1.1 and 0.1 do not store decoded lengths. For dense tensors the shape determines them.
  bool length_by_shape = false;
};

std::optional<ringload::dtype> zt_dtype(std::string_view short_name) noexcept;
std::optional<ringload::dtype> zt_0_1_dtype(std::string_view long_name) noexcept;

// The names of an element type in .zt: a dtype of the closed list, and a logical type if the dtype
// is not sufficient.
struct zt_element {
  ringload::dtype stored = dtype::u8;
  std::string_view type;  // Empty: the same as `stored`.
};

// Returns nothing for types of less than a byte, which .zt does not support.
std::optional<zt_element> zt_element_of(ringload::dtype type) noexcept;

// Returns a name such as "bf16", or an empty string if no zt_element::stored has this type.
std::string_view zt_dtype_name(ringload::dtype stored) noexcept;

// Adds the object's tensors. Also adds a composite if the object is not dense.
std::optional<fault> add_zt_object(zt_object object, const zt_blobs& blobs, file_entries& found);

}  // namespace ringload::inline v0
