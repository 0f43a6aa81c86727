// SPDX-License-Identifier: Apache-2.0
#pragma once

// Converts the quantised blocks of GGUF files to floating-point numbers on the CPU.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/numeric/quant_format.hpp"

namespace ringload::inline v0 {

// Returns the block type with this name. Returns an empty optional if blocks of this name cannot be
// dequantised.
std::optional<block_type> block_type_named(std::string_view name) noexcept;

struct block_size {
  std::uint32_t elements = 0;
  std::uint32_t bytes = 0;
};

block_size size_of(block_type type) noexcept;

constexpr element_kind kind_of(block_type type) noexcept { return blocks::kind_of(type); }
constexpr block_type block_of(element_kind kind) noexcept {
  return static_cast<block_type>(static_cast<unsigned>(kind) -
                                 static_cast<unsigned>(element_kind::blocks));
}

// Dequantises `count` blocks. `to_type` must be f32, f16 or bf16. Each element is computed as f32,
// then rounded to `to_type`. The ranges must not overlap. The addresses may have any alignment.
void dequantize(block_type type, const std::byte* from, std::byte* to, std::size_t count,
                float_type to_type) noexcept;

}  // namespace ringload::inline v0
