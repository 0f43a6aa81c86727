// SPDX-License-Identifier: Apache-2.0

#include "base/numeric/convert.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>

#include "base/numeric/convert_any.hpp"
#include "base/numeric/dequantize.hpp"
#include "base/numeric/has_avx2.hpp"

namespace ringload::inline v0 {

namespace {

// Converts `count` elements in a loop without branches. convert_all() inlines this function with a
// constant `count`, so that the compiler vectorises the loop in every optimised build.
template <float_type From, float_type To>
[[gnu::always_inline]] inline void convert_batch(const std::byte* __restrict from,
                                                 std::byte* __restrict to, std::size_t count) {
  using source_word = typename float_bits<From>::word;
  using target_word = typename float_bits<To>::word;
  for (std::size_t i = 0; i < count; ++i) {
    source_word word = 0;
    std::memcpy(&word, from + i * sizeof word, sizeof word);
    const target_word value = converted<From, To>(word);
    std::memcpy(to + i * sizeof value, &value, sizeof value);
  }
}

template <float_type From, float_type To>
[[gnu::always_inline]] inline void convert_all(const std::byte* from, std::byte* to,
                                               std::size_t elements) {
  constexpr std::size_t step = 64;
  constexpr std::size_t source_bytes = sizeof(typename float_bits<From>::word);
  constexpr std::size_t target_bytes = sizeof(typename float_bits<To>::word);
  std::size_t position = 0;
  for (; elements - position >= step; position += step) {
    convert_batch<From, To>(from + position * source_bytes, to + position * target_bytes, step);
  }
  convert_batch<From, To>(from + position * source_bytes, to + position * target_bytes,
                          elements - position);
}

// For a source type with 256 values, a table is several times as fast as arithmetic.
template <float_type From, float_type To>
void look_up_all(const std::byte* __restrict from, std::byte* __restrict to, std::size_t elements) {
  using target_word = typename float_bits<To>::word;
  static const auto table = [] {
    std::array<target_word, 256> values = {};
    for (unsigned i = 0; i < 256; ++i)
      values[i] = converted<From, To>(static_cast<std::uint8_t>(i));
    return values;
  }();
  const target_word* const row = table.data();
  for (std::size_t i = 0; i < elements; ++i) {
    std::memcpy(to + i * sizeof(target_word), row + static_cast<std::uint8_t>(from[i]),
                sizeof(target_word));
  }
}

#if defined(__x86_64__)
// Compiles convert_all() for CPUs with AVX2. AVX2 vectors are twice as wide as SSE2 vectors. AVX2
// can also shift each element by a different number of bits, which the rounding of subnormal
// numbers needs.
template <float_type From, float_type To>
[[gnu::target("avx2")]] void convert_avx2(const std::byte* from, std::byte* to,
                                          std::size_t elements) {
  convert_all<From, To>(from, to, elements);
}
#endif

// Returns true if both types are floating-point types of at most 32 bits. These pairs are converted
// through f32, with one loop for each pair.
constexpr bool converts_by_f32(conversion kinds) noexcept {
  return kinds.from <= element_kind::f8_e5m2 && kinds.to <= element_kind::f8_e5m2;
}

void convert_by_f32(const std::byte* from, std::byte* to, std::size_t elements, conversion kinds) {
  const auto work = [&](auto source, auto target) {
    constexpr float_type source_type = decltype(source)::type;
    constexpr float_type target_type = decltype(target)::type;
    if constexpr (sizeof(typename float_bits<source_type>::word) == 1) {
      look_up_all<source_type, target_type>(from, to, elements);
    } else {
#if defined(__x86_64__)
      if (has_avx2()) return convert_avx2<source_type, target_type>(from, to, elements);
#endif
      convert_all<source_type, target_type>(from, to, elements);
    }
  };
  if (kinds.to == float_type::f8_e4m3fn)
    return with_source<float_type::f8_e4m3fn>(kinds.from, work);
  if (kinds.to == float_type::f8_e5m2) return with_source<float_type::f8_e5m2>(kinds.from, work);
  with_types(kinds, work);
}

// Number of elements in the buffer of convert_by_f64(). convert_by_f64() converts the pairs of
// types for which no faster function exists. Elements are widened to f64 and then narrowed, with
// one loop for each source type and one loop for each target type.
constexpr std::size_t wide_elements = 256;

template <element_kind From>
[[gnu::always_inline]] inline void widen_batch(const std::byte* __restrict from,
                                               double* __restrict wide, std::size_t count) {
  using source = element_bits<From>;
  for (std::size_t i = 0; i < count; ++i) {
    typename source::word word = 0;
    std::memcpy(&word, from + i * sizeof word, sizeof word);
    wide[i] = source::widen(word);
  }
}

template <element_kind To>
[[gnu::always_inline]] inline void narrow_batch(const double* __restrict wide,
                                                std::byte* __restrict to, std::size_t count) {
  using target = element_bits<To>;
  for (std::size_t i = 0; i < count; ++i) {
    const typename target::word value = target::narrow(wide[i]);
    std::memcpy(to + i * sizeof value, &value, sizeof value);
  }
}

#if defined(__x86_64__)
template <element_kind From>
[[gnu::target("avx2")]] void widen_avx2(const std::byte* from, double* wide, std::size_t count) {
  widen_batch<From>(from, wide, count);
}

template <element_kind To>
[[gnu::target("avx2")]] void narrow_avx2(const double* wide, std::byte* to, std::size_t count) {
  narrow_batch<To>(wide, to, count);
}
#endif

void widen(element_kind kind, const std::byte* from, double* wide, std::size_t count) {
  with_kind(kind, [&](auto tag) {
    constexpr element_kind source = decltype(tag)::kind;
#if defined(__x86_64__)
    if (has_avx2()) return widen_avx2<source>(from, wide, count);
#endif
    widen_batch<source>(from, wide, count);
  });
}

void narrow(element_kind kind, const double* wide, std::byte* to, std::size_t count) {
  with_kind(kind, [&](auto tag) {
    constexpr element_kind target = decltype(tag)::kind;
#if defined(__x86_64__)
    if (has_avx2()) return narrow_avx2<target>(wide, to, count);
#endif
    narrow_batch<target>(wide, to, count);
  });
}

void convert_by_f64(const std::byte* from, std::byte* to, std::size_t elements, conversion kinds) {
  alignas(64) double wide[wide_elements];
  for (std::size_t position = 0; position < elements; position += wide_elements) {
    const std::size_t count = std::min(wide_elements, elements - position);
    widen(kinds.from, from + position * kinds.from_bytes(), wide, count);
    narrow(kinds.to, wide, to + position * kinds.to_bytes(), count);
  }
}

void convert_integers(const std::byte* from, std::byte* to, std::size_t elements,
                      conversion kinds) {
  for (std::size_t i = 0; i < elements; ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, from + i * sizeof word, sizeof word);
    word = converted_integer(kinds, word);
    std::memcpy(to + i * sizeof word, &word, sizeof word);
  }
}

// Indexed by element_kind.
constexpr dtype dtypes[element_kind_count] = {
    dtype::f32, dtype::f16,     dtype::bf16, dtype::f8_e4m3fn, dtype::f8_e5m2,
    dtype::f64, dtype::boolean, dtype::i8,   dtype::u8,        dtype::i16,
    dtype::u16, dtype::i32,     dtype::u32,  dtype::i64,       dtype::u64};

}  // namespace

std::optional<element_kind> element_kind_of(dtype type) noexcept {
  const auto* const found = std::find(std::begin(dtypes), std::end(dtypes), type);
  if (found == std::end(dtypes)) return std::nullopt;
  return static_cast<element_kind>(found - std::begin(dtypes));
}

dtype dtype_of(element_kind kind) noexcept { return dtypes[static_cast<unsigned>(kind)]; }

bool convertible(dtype from, dtype to) noexcept {
  const bool is_target = to == dtype::f32 || to == dtype::f16 || to == dtype::bf16;
  const auto kind = element_kind_of(from);
  return is_target && from != to && kind && *kind <= element_kind::f64;
}

bool kernels_convert(dtype from, dtype to) noexcept {
  return convertible(from, to) && from != dtype::f64;
}

bool fill_converts(dtype from, dtype to) noexcept {
  return from != to && element_kind_of(from) && element_kind_of(to);
}

void convert(const std::byte* from, std::byte* to, std::size_t elements,
             conversion kinds) noexcept {
  if (is_block(kinds.from)) return dequantize(block_of(kinds.from), from, to, elements, kinds.to);
  if (converts_by_f32(kinds)) return convert_by_f32(from, to, elements, kinds);
  if (converts_integers(kinds)) return convert_integers(from, to, elements, kinds);
  convert_by_f64(from, to, elements, kinds);
}

}  // namespace ringload::inline v0
