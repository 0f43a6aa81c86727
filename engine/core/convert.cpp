// SPDX-License-Identifier: Apache-2.0
#include "core/convert.hpp"

#include <array>
#include <cstring>

namespace ringload::inline v0 {

namespace {

// No branch and a constant trip count, so the compiler vectorizes the loop in every optimized
// build.
template <float_type From, float_type To>
[[gnu::always_inline]] inline void convert_some(const std::byte* __restrict from,
                                                std::byte* __restrict to, std::size_t count) {
  using in = typename float_bits<From>::word;
  using out = typename float_bits<To>::word;
  for (std::size_t i = 0; i < count; ++i) {
    in word = 0;
    std::memcpy(&word, from + i * sizeof word, sizeof word);
    const out made = converted<From, To>(word);
    std::memcpy(to + i * sizeof made, &made, sizeof made);
  }
}

template <float_type From, float_type To>
[[gnu::always_inline]] inline void convert_all(const std::byte* from, std::byte* to,
                                               std::size_t elements) {
  constexpr std::size_t step = 64;
  constexpr std::size_t in = sizeof(typename float_bits<From>::word);
  constexpr std::size_t out = sizeof(typename float_bits<To>::word);
  std::size_t at = 0;
  for (; elements - at >= step; at += step) {
    convert_some<From, To>(from + at * in, to + at * out, step);
  }
  convert_some<From, To>(from + at * in, to + at * out, elements - at);
}

// 256 values: a table lookup is several times as fast as the arithmetic.
template <float_type From, float_type To>
void look_up_all(const std::byte* __restrict from, std::byte* __restrict to, std::size_t elements) {
  using out = typename float_bits<To>::word;
  static const auto table = [] {
    std::array<out, 256> made = {};
    for (unsigned i = 0; i < 256; ++i) made[i] = converted<From, To>(static_cast<std::uint8_t>(i));
    return made;
  }();
  const out* const row = table.data();
  for (std::size_t i = 0; i < elements; ++i) {
    std::memcpy(to + i * sizeof(out), row + static_cast<std::uint8_t>(from[i]), sizeof(out));
  }
}

#if defined(__x86_64__)
// The same code for AVX2: vectors twice as wide, and shifts by lane.
template <float_type From, float_type To>
[[gnu::target("avx2")]] void convert_avx2(const std::byte* from, std::byte* to,
                                          std::size_t elements) {
  convert_all<From, To>(from, to, elements);
}

bool has_avx2() noexcept {
  static const bool has = __builtin_cpu_supports("avx2") != 0;
  return has;
}
#endif

}  // namespace

std::optional<float_type> float_type_of(dtype type) noexcept {
  switch (type) {
    case dtype::f32: return float_type::f32;
    case dtype::f16: return float_type::f16;
    case dtype::bf16: return float_type::bf16;
    case dtype::f8_e4m3: return float_type::f8_e4m3;
    case dtype::f8_e5m2: return float_type::f8_e5m2;
    default: return std::nullopt;
  }
}

dtype dtype_of(float_type type) noexcept {
  switch (type) {
    case float_type::f32: return dtype::f32;
    case float_type::f16: return dtype::f16;
    case float_type::bf16: return dtype::bf16;
    case float_type::f8_e4m3: return dtype::f8_e4m3;
    case float_type::f8_e5m2: return dtype::f8_e5m2;
  }
  return dtype::f32;
}

bool convertible(dtype from, dtype to) noexcept {
  const bool into = to == dtype::f32 || to == dtype::f16 || to == dtype::bf16;
  return into && from != to && float_type_of(from).has_value();
}

void convert(const std::byte* from, std::byte* to, std::size_t elements, conversion how) noexcept {
  with_types(how, [&](auto source, auto target) {
    constexpr float_type in = decltype(source)::type;
    constexpr float_type out = decltype(target)::type;
    if constexpr (sizeof(typename float_bits<in>::word) == 1) {
      look_up_all<in, out>(from, to, elements);
    } else {
#if defined(__x86_64__)
      if (has_avx2()) return convert_avx2<in, out>(from, to, elements);
#endif
      convert_all<in, out>(from, to, elements);
    }
  });
}

}  // namespace ringload::inline v0
