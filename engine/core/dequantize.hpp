// SPDX-License-Identifier: Apache-2.0
#pragma once

// Blocks of quantised numbers to floating-point ones, by the processor.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "core/block_format.hpp"

namespace ringload::inline v0 {

// The type that files call so ("q4_k"); empty where it is none that can be dequantised.
std::optional<block_type> block_type_named(std::string_view name) noexcept;

struct block_size {
  std::uint32_t elements = 0;
  std::uint32_t bytes = 0;
};

block_size size_of(block_type type) noexcept;

// Blocks as a source of conversions, and back.
constexpr element_kind kind_of(block_type type) noexcept { return blocks::kind_of(type); }
constexpr block_type block_of(element_kind kind) noexcept {
  return static_cast<block_type>(static_cast<unsigned>(kind) -
                                 static_cast<unsigned>(element_kind::blocks));
}

// From one place to another that it does not overlap. Neither need be aligned. `to_type` is f32,
// f16 or bf16; the latter two are rounded from the f32.
void dequantize(block_type type, const std::byte* from, std::byte* to, std::size_t count,
                float_type to_type) noexcept;

}  // namespace ringload::inline v0
