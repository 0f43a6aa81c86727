// SPDX-License-Identifier: Apache-2.0
#pragma once

// Dequantises elements of the quantised blocks of GGUF files. Each element is stored as a small
// integer, which is called the number of the element. Several elements share a scale. The library
// ggml defines the layouts.
//
// A block consists of runs with 16 or 32 elements. A run has one scale and a regular bit layout:
//
//  q4_0  | scale, 2 bytes | 16 bytes: elements 0 to 15 in the low halves, 16 to 31 in the high |
//
// An element is scale * number, or scale * number + minimum. The computation uses f32 and rounds
// each step to nearest. The result has the same bits as the result of the Python package gguf on
// x86-64, including NaNs. Host code and GPU kernels include this file. CUDA compiles this file as
// C++17.

#include <cstdint>
#include <cstring>

#include "base/numeric/quant_blocks_of_256.hpp"
#include "base/numeric/quant_blocks_of_32.hpp"

namespace ringload {
inline namespace v0 {

// Returns an element as f32. If the element is NaN, the result is any NaN.
template <block_type Type>
RINGLOAD_ANYWHERE inline float value_of(const blocks::run& r, std::int32_t number) noexcept {
  const float scaled = blocks::product(r.scale, static_cast<float>(number));
  return block_format<Type>::has_minimum ? blocks::sum(scaled, r.minimum) : scaled;
}

// Returns the bits of an element. If the element is NaN, returns `nan` or `nan_of_zero` of the run.
template <block_type Type>
RINGLOAD_ANYWHERE inline std::uint32_t dequantized(const blocks::run& r,
                                                   std::int32_t number) noexcept {
  const std::uint32_t bits = blocks::bits_of(value_of<Type>(r, number));
  const std::uint32_t nan = number == 0 ? r.nan_of_zero : r.nan;
  return blocks::is_nan(bits) ? nan : bits;
}

template <block_type Type>
struct block_tag {
  static constexpr block_type type = Type;
};

// Calls `work` with the tag of `type`. This turns a run-time value into a template argument.
template <class Work>
auto with_block_type(block_type type, Work work) {
  switch (type) {
    case block_type::q4_0: break;
    case block_type::q4_1: return work(block_tag<block_type::q4_1>());
    case block_type::q5_0: return work(block_tag<block_type::q5_0>());
    case block_type::q5_1: return work(block_tag<block_type::q5_1>());
    case block_type::q8_0: return work(block_tag<block_type::q8_0>());
    case block_type::q2_k: return work(block_tag<block_type::q2_k>());
    case block_type::q3_k: return work(block_tag<block_type::q3_k>());
    case block_type::q4_k: return work(block_tag<block_type::q4_k>());
    case block_type::q5_k: return work(block_tag<block_type::q5_k>());
    case block_type::q6_k: return work(block_tag<block_type::q6_k>());
    case block_type::q8_k: return work(block_tag<block_type::q8_k>());
    case block_type::iq4_nl: return work(block_tag<block_type::iq4_nl>());
    case block_type::iq4_xs: return work(block_tag<block_type::iq4_xs>());
    case block_type::mxfp4: return work(block_tag<block_type::mxfp4>());
  }
  return work(block_tag<block_type::q4_0>());
}

}  // namespace v0
}  // namespace ringload
