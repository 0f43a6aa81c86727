// SPDX-License-Identifier: Apache-2.0

#include "base/numeric/dequantize.hpp"

#include <array>

#include "base/numeric/has_avx2.hpp"

namespace ringload::inline v0 {

namespace {

constexpr std::array<std::string_view, block_type_count> names = {
    "q4_0", "q4_1", "q5_0", "q5_1", "q8_0",   "q2_k",   "q3_k",
    "q4_k", "q5_k", "q6_k", "q8_k", "iq4_nl", "iq4_xs", "mxfp4"};

// Decodes one run (see quant_type.hpp). The two loops contain no branches and have a constant
// number of iterations, so the compiler vectorises the loops in every optimised build. `unroll 1`
// is needed, because unrolled loops are not vectorised.
template <block_type Type, class Run>
[[gnu::always_inline]] inline void decode_run(const Run& r, std::uint32_t* to) {
  using format = block_format<Type>;
  std::array<std::int8_t, format::run_elements> numbers;
#pragma GCC unroll 1
  for (unsigned i = 0; i < format::run_elements; ++i) {
    numbers[i] = static_cast<std::int8_t>(format::number(r, i));
  }
#pragma GCC unroll 1
  for (unsigned i = 0; i < format::run_elements; ++i)
    to[i] = blocks::bits_of(value_of<Type>(r, numbers[i]));
}

// Decodes a block whose scale or minimum is infinite or NaN. These blocks are rare. Therefore the
// vectorised loop does not handle these blocks.
template <block_type Type>
[[gnu::noinline]] void decode_not_finite(blocks::byte_pointer block, std::uint32_t* to) {
  using format = block_format<Type>;
  const blocks::shared common = format::shared(block);
  for (unsigned i = 0; i < format::elements / format::run_elements; ++i) {
    auto r = format::run(block, common, i);
    blocks::set_nans(r, common);
    for (unsigned e = 0; e < format::run_elements; ++e) {
      *to++ = dequantized<Type>(r, static_cast<std::int8_t>(format::number(r, e)));
    }
  }
}

template <block_type Type, float_type To>
[[gnu::always_inline]] inline void decode_all(const std::byte* from, std::byte* __restrict to,
                                              std::size_t count) {
  using format = block_format<Type>;
  using word = typename float_bits<To>::word;
  static_assert(format::elements == elements_of(kind_of(Type)));
  constexpr unsigned runs = format::elements / format::run_elements;
  for (; count > 0; --count, from += format::bytes, to += format::elements * sizeof(word)) {
    const auto* const block = reinterpret_cast<const std::uint8_t*>(from);
    const blocks::shared common = format::shared(block);
    std::array<std::uint32_t, format::elements> wide;
    if (blocks::finite(common)) {
      for (unsigned i = 0; i < runs; ++i) {
        decode_run<Type>(format::run(block, common, i), wide.data() + i * format::run_elements);
      }
    } else {
      decode_not_finite<Type>(block, wide.data());
    }
    for (unsigned i = 0; i < format::elements; ++i) {
      const word narrowed = float_bits<To>::narrow(wide[i]);
      std::memcpy(to + i * sizeof narrowed, &narrowed, sizeof narrowed);
    }
  }
}

#if defined(__x86_64__)
// Compiles decode_all() for CPUs with AVX2.
template <block_type Type, float_type To>
[[gnu::target("avx2")]] void decode_avx2(const std::byte* from, std::byte* to, std::size_t count) {
  decode_all<Type, To>(from, to, count);
}
#endif

template <block_type Type, float_type To>
void decode(const std::byte* from, std::byte* to, std::size_t count) {
#if defined(__x86_64__)
  if (has_avx2()) return decode_avx2<Type, To>(from, to, count);
#endif
  decode_all<Type, To>(from, to, count);
}

}  // namespace

std::optional<block_type> block_type_named(std::string_view name) noexcept {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return static_cast<block_type>(i);
  }
  return std::nullopt;
}

block_size size_of(block_type type) noexcept {
  return with_block_type(type, [](auto tag) {
    using format = block_format<decltype(tag)::type>;
    return block_size{format::elements, format::bytes};
  });
}

void dequantize(block_type type, const std::byte* from, std::byte* to, std::size_t count,
                float_type to_type) noexcept {
  with_block_type(type, [&](auto tag) {
    constexpr block_type source_type = decltype(tag)::type;
    if (to_type == float_type::f16) return decode<source_type, float_type::f16>(from, to, count);
    if (to_type == float_type::bf16) return decode<source_type, float_type::bf16>(from, to, count);
    decode<source_type, float_type::f32>(from, to, count);
  });
}

}  // namespace ringload::inline v0
