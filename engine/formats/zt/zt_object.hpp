// SPDX-License-Identifier: Apache-2.0
#pragma once

// One object of a .zt manifest -> tensors; and the names that .zt has for element types.

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

// A run of stored bytes, as the manifest says it.
struct zt_component {
  std::string name;
  std::uint64_t manifest_byte = 0;
  std::optional<ringload::dtype> dtype;
  std::string type;  // Logical; empty: dtype says it all.
  std::optional<std::uint64_t> offset;
  std::optional<std::uint64_t> length;  // Stored.
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
  range attribute_bytes;           // In the file: of the map of attributes; empty: none.
  std::string encoded_attributes;  // That map as CBOR, where the object is to be written.
  std::optional<std::vector<zt_component>> components;
  // It was read from a file. Such an object may break rules that one of our own may not.
  bool from_file = false;
  std::optional<fault> unreadable;  // Of one from a file.
};

// Where blobs may lie, and what a version says of them.
struct zt_blobs {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t alignment = 1;
  // 1.1 and 0.1 do not say how long compressed bytes become. The shape of a dense tensor does.
  bool length_by_shape = false;
};

std::optional<ringload::dtype> zt_dtype(std::string_view short_name) noexcept;
std::optional<ringload::dtype> zt_0_1_dtype(std::string_view long_name) noexcept;

// How a .zt file names the elements of a type: a dtype of its closed list, and a logical type where
// that is not enough.
struct zt_element {
  ringload::dtype stored = dtype::u8;
  std::string_view type;  // Empty: `stored` says it all.
};

// Empty for types of less than a byte, which .zt does not have.
std::optional<zt_element> zt_element_of(ringload::dtype type) noexcept;

// "bf16"; empty where no zt_element::stored is of that type.
std::string_view zt_dtype_name(ringload::dtype stored) noexcept;

// Adds the object's tensors, and its composite where it is not dense.
std::optional<fault> add_zt_object(zt_object object, const zt_blobs& blobs, file_entries& found);

}  // namespace ringload::inline v0
