// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <ringload/dtype.hpp>
#include <string_view>

namespace ringload::inline v0 {

struct gguf_type {
  std::uint32_t id = 0;
  std::string_view name;  // For example "q4_k".
  std::uint32_t block_elements = 1;
  std::uint32_t block_bytes = 0;
  std::optional<ringload::dtype> plain;  // Set if a block of the type is a single element.
};

// Returns null if `id` is unknown, or was removed from GGUF.
const gguf_type* gguf_type_of(std::uint32_t id) noexcept;

bool gguf_type_removed(std::uint32_t id) noexcept;

}  // namespace ringload::inline v0
