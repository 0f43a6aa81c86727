// SPDX-License-Identifier: Apache-2.0

#include "formats/gguf/gguf_types.hpp"

#include <algorithm>
#include <array>

namespace ringload::inline v0 {

namespace {

constexpr auto known_types = std::to_array<gguf_type>({
    {0, "f32", 1, 4, dtype::f32},  {1, "f16", 1, 2, dtype::f16},    {2, "q4_0", 32, 18, {}},
    {3, "q4_1", 32, 20, {}},       {6, "q5_0", 32, 22, {}},         {7, "q5_1", 32, 24, {}},
    {8, "q8_0", 32, 34, {}},       {9, "q8_1", 32, 36, {}},         {10, "q2_k", 256, 84, {}},
    {11, "q3_k", 256, 110, {}},    {12, "q4_k", 256, 144, {}},      {13, "q5_k", 256, 176, {}},
    {14, "q6_k", 256, 210, {}},    {15, "q8_k", 256, 292, {}},      {16, "iq2_xxs", 256, 66, {}},
    {17, "iq2_xs", 256, 74, {}},   {18, "iq3_xxs", 256, 98, {}},    {19, "iq1_s", 256, 50, {}},
    {20, "iq4_nl", 32, 18, {}},    {21, "iq3_s", 256, 110, {}},     {22, "iq2_s", 256, 82, {}},
    {23, "iq4_xs", 256, 136, {}},  {24, "i8", 1, 1, dtype::i8},     {25, "i16", 1, 2, dtype::i16},
    {26, "i32", 1, 4, dtype::i32}, {27, "i64", 1, 8, dtype::i64},   {28, "f64", 1, 8, dtype::f64},
    {29, "iq1_m", 256, 56, {}},    {30, "bf16", 1, 2, dtype::bf16}, {34, "tq1_0", 256, 54, {}},
    {35, "tq2_0", 256, 66, {}},    {39, "mxfp4", 32, 17, {}},       {40, "nvfp4", 64, 36, {}},
    {41, "q1_0", 128, 18, {}},     {42, "q2_0", 64, 18, {}},
});

constexpr auto removed = std::to_array<std::uint32_t>({4, 5, 31, 32, 33, 36, 37, 38});

}  // namespace

const gguf_type* gguf_type_of(std::uint32_t id) noexcept {
  const auto found = std::ranges::lower_bound(known_types, id, {}, &gguf_type::id);
  return found != known_types.end() && found->id == id ? &*found : nullptr;
}

bool gguf_type_removed(std::uint32_t id) noexcept {
  return std::ranges::find(removed, id) != removed.end();
}

}  // namespace ringload::inline v0
