// SPDX-License-Identifier: Apache-2.0
#pragma once

// The element and block types of GGUF, as data: the list grows.

#include <cstdint>
#include <optional>
#include <ringload/dtype.hpp>
#include <string_view>

namespace ringload::inline v0 {

struct gguf_type {
  std::uint32_t id = 0;
  std::string_view name;  // "q4_k"
  std::uint32_t block_elements = 1;
  std::uint32_t block_bytes = 0;
  std::optional<ringload::dtype> plain;  // Of types whose blocks are single elements.
};

// Null for numbers that no type has, or no longer has.
const gguf_type* gguf_type_of(std::uint32_t id) noexcept;

// Whether that number once was a type that files can no longer have.
bool gguf_type_removed(std::uint32_t id) noexcept;

}  // namespace ringload::inline v0
