// SPDX-License-Identifier: Apache-2.0
#pragma once

// The parsed manifest of a .zt file. The manifest describes objects and their components. The
// stored bytes of a component are a blob. zTensor is the program that defines the format.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <ringload/catalog.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/fault.hpp"
#include "base/range.hpp"

namespace ringload::inline v0 {

inline constexpr std::string_view zt_magic = "ZTEN1000";
inline constexpr std::string_view zt_0_1_magic = "ZTEN0001";
inline constexpr std::string_view zt_2_magic = "\x89ZT2\r\n\x1A\n";
inline constexpr std::uint64_t zt_index_bytes_max = std::uint64_t{1} << 30;
inline constexpr std::uint64_t zt_alignment = 64;
inline constexpr std::size_t zt_rank_max = 64;

// Attribute keys for a u8 object that contains quantised blocks or elements of fewer than 8 bits.
// The value of one of the zt_type_keys is the type of the elements. The value of
// zt_original_shape_key is the original shape. zTensor uses the key gguf_type for blocks from GGUF.
inline constexpr std::array<std::string_view, 2> zt_type_keys = {"gguf_type", "logical_type"};
inline constexpr std::string_view zt_original_shape_key = "original_shape";

// Limit for the bytes of all names. The name of an object counts once for each of its components.
inline constexpr std::uint64_t zt_name_bytes_max = std::uint64_t{16} << 20;

// Limit for the text of all attributes.
inline constexpr std::uint64_t zt_attribute_bytes_max = std::uint64_t{16} << 20;

// The manifest's description of a component, which is a contiguous range of stored bytes.
struct zt_component {
  std::string name;
  std::uint64_t description_offset = 0;  // File offset, for error texts. 0 for a new file.
  std::optional<ringload::dtype> dtype;
  std::string type;  // The logical type. Empty if `dtype` is sufficient.
  std::optional<std::uint64_t> offset;
  std::optional<std::uint64_t> length;  // The stored length.
  std::optional<std::uint64_t> uncompressed_length;
  bool zstd = false;
  std::uint8_t swap_bytes = 0;  // As in `stored_form`.
  std::string digest;           // "algorithm:value". Empty if there is no digest.
};

struct zt_object {
  std::string name;
  std::uint64_t description_offset = 0;  // As in `zt_component`.
  std::optional<std::string> format;
  std::optional<std::vector<std::uint64_t>> shape;
  ringload::attributes attributes;
  range attribute_bytes;  // Range of the attribute map in the file. Empty if there is no map.
  std::string encoded_attributes;  // The attribute map as CBOR, for writing.
  std::optional<std::vector<zt_component>> components;
  // True if the object was read from a file. The rules for objects that are written are stricter.
  bool from_file = false;
  std::optional<fault> unreadable;  // The reason why an object from a file cannot be read.
};

// The allowed range and alignment of blobs, and whether the manifest states decoded lengths.
struct zt_blob_rules {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t alignment = 1;
  // True for versions 1.1 and 0.1, which do not state decoded lengths. The length of a dense tensor
  // follows from its shape.
  bool length_by_shape = false;
};

struct zt_index {
  bool is_0_1 = false;
  std::string version;  // Empty for version 0.1, which has no version field.
  range attribute_bytes;
  std::string encoded_attributes;  // A CBOR map. Empty if there are no attributes.
  // In the order of the manifest, but the objects that read_unsized() adds are last.
  std::vector<zt_object> objects;
  std::uint64_t begin = 0;  // Offset of the manifest. The blobs end at this offset.
};

}  // namespace ringload::inline v0
