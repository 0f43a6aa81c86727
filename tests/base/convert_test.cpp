// SPDX-License-Identifier: Apache-2.0
#include "base/numeric/convert.hpp"

#include <doctest/doctest.h>

#include <cfenv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "support/float_reference.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

constexpr dtype targets[] = {dtype::f32, dtype::f16, dtype::bf16};
constexpr dtype small_sources[] = {dtype::f16, dtype::bf16, dtype::f8_e4m3fn, dtype::f8_e5m2};

std::string converted_bytes(const std::string& source, dtype from, dtype to) {
  const std::size_t elements = source.size() / (bits(from) / 8);
  std::vector<std::byte> made(elements * (bits(to) / 8));
  convert(reinterpret_cast<const std::byte*>(source.data()), made.data(), elements,
          {*element_kind_of(from), *element_kind_of(to)});
  return {reinterpret_cast<const char*>(made.data()), made.size()};
}

template <class Word>
std::string text_of(const std::vector<Word>& words) {
  return {reinterpret_cast<const char*>(words.data()), words.size() * sizeof(Word)};
}

// Describes the first element that differs from the reference.
std::string first_difference(const std::string& source, dtype from, dtype to) {
  const std::string made = converted_bytes(source, from, to);
  const std::string wanted = reference_bytes(source, from, to);
  if (made == wanted) return {};
  const std::size_t in = bits(from) / 8;
  const std::size_t out = bits(to) / 8;
  std::size_t at = 0;
  while (made.compare(at * out, out, wanted, at * out, out) == 0) ++at;
  std::uint32_t source_bits = 0;
  std::uint32_t made_bits = 0;
  std::uint32_t wanted_bits = 0;
  std::memcpy(&source_bits, source.data() + at * in, in);
  std::memcpy(&made_bits, made.data() + at * out, out);
  std::memcpy(&wanted_bits, wanted.data() + at * out, out);
  return std::string(name(from)) + " " + std::to_string(source_bits) + " to " +
         std::string(name(to)) + ": " + std::to_string(made_bits) + ", and not " +
         std::to_string(wanted_bits);
}

std::string every_word_of(dtype type) {
  if (bits(type) == 8) {
    std::string all;
    for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
    return all;
  }
  std::vector<std::uint16_t> all;
  for (unsigned i = 0; i < 65'536; ++i) all.push_back(static_cast<std::uint16_t>(i));
  return text_of(all);
}

// The f32 halfway between each number of the type and the next larger number, and the f32 on both
// sides of the midpoint and of the number: every place where the result of rounding changes.
std::vector<std::uint32_t> borders_of(dtype type) {
  std::vector<std::uint32_t> all;
  const auto add = [&all](std::uint32_t bits) {
    for (const std::uint32_t sign : {0U, 0x80000000U}) {
      for (std::uint32_t near = bits - 1; near != bits + 2; ++near) all.push_back(near ^ sign);
    }
  };
  const float_format format = format_of(type);
  const std::uint32_t infinity = format.exponent_mask() << format.fraction_bits;
  for (std::uint32_t word = 0; word < infinity; ++word) {
    // The next number after the largest, if the format had no infinity.
    const double here = magnitude(word, format);
    const double next =
        word + 1 < infinity ? magnitude(word + 1, format) : std::ldexp(1.0, format.bias() + 1);
    for (const double value : {here, (here + next) / 2}) {
      const auto single = static_cast<float>(value);
      std::uint32_t bits = 0;
      std::memcpy(&bits, &single, sizeof bits);
      add(bits);
    }
  }
  return all;
}

}  // namespace

TEST_CASE("convert: every f16, bf16, f8_e4m3 and f8_e5m2 becomes what it should") {
  for (const dtype from : small_sources) {
    for (const dtype to : targets) {
      if (convertible(from, to)) CHECK(first_difference(every_word_of(from), from, to) == "");
    }
  }
}

TEST_CASE("convert: an f32 is rounded to nearest, ties to even, at every border there is") {
  for (const dtype to : {dtype::f16, dtype::bf16}) {
    CHECK(first_difference(text_of(borders_of(to)), dtype::f32, to) == "");
  }
}

TEST_CASE("convert: any f32 at all") {
  std::mt19937 random(7);
  std::vector<std::uint32_t> all(1'000'000);
  for (std::uint32_t& each : all) each = static_cast<std::uint32_t>(random());
  for (const dtype to : {dtype::f16, dtype::bf16}) {
    CHECK(first_difference(text_of(all), dtype::f32, to) == "");
  }
}

TEST_CASE("convert: a NaN becomes the quiet NaN of its sign without payload") {
  std::vector<std::uint32_t> nans;
  for (unsigned place = 0; place < 23; ++place) {
    nans.push_back(0x7F800000U | 1U << place);
    nans.push_back(0xFF800000U | 1U << place);
  }
  for (std::size_t i = 0; i < nans.size(); ++i) {
    const std::string one = text_of<std::uint32_t>({nans[i]});
    const bool negative = i % 2 == 1;
    CHECK(converted_bytes(one, dtype::f32, dtype::f16) ==
          text_of<std::uint16_t>({static_cast<std::uint16_t>(negative ? 0xFE00 : 0x7E00)}));
    CHECK(converted_bytes(one, dtype::f32, dtype::bf16) ==
          text_of<std::uint16_t>({static_cast<std::uint16_t>(negative ? 0xFFC0 : 0x7FC0)}));
  }
  CHECK(converted_bytes("\x7F\xFF", dtype::f8_e4m3fn, dtype::f32) ==
        text_of<std::uint32_t>({0x7FC00000U, 0xFFC00000U}));
}

TEST_CASE("convert: some numbers that people know") {
  const auto f16_of = [](float value) {
    std::string one(sizeof value, '\0');
    std::memcpy(one.data(), &value, sizeof value);
    std::uint16_t made = 0;
    std::memcpy(&made, converted_bytes(one, dtype::f32, dtype::f16).data(), sizeof made);
    return made;
  };
  CHECK(f16_of(1.0F) == 0x3C00);
  CHECK(f16_of(-0.0F) == 0x8000);
  CHECK(f16_of(65'504.0F) == 0x7BFF);   // The largest.
  CHECK(f16_of(65'519.99F) == 0x7BFF);  // Nearer to the largest number than to the next step.
  CHECK(f16_of(65'520.0F) == 0x7C00);   // Halfway, and the largest number is odd.
  CHECK(f16_of(0x1p-24F) == 0x0001);    // The smallest.
  CHECK(f16_of(0x1p-25F) == 0x0000);    // Half of it, and 0 is even.
  CHECK(f16_of(0x1.000002p-25F) == 0x0001);
  CHECK(f16_of(0x1p-149F) == 0x0000);
}

TEST_CASE("convert: any number of elements, from and to any address") {
  const std::string source = every_word_of(dtype::f16);
  for (const dtype from : {dtype::f16, dtype::f8_e5m2, dtype::f32}) {
    for (const dtype to : {dtype::f32, dtype::bf16}) {
      if (!convertible(from, to)) continue;
      const conversion how = {*element_kind_of(from), *element_kind_of(to)};
      for (std::size_t elements = 0; elements < 200; ++elements) {
        const std::size_t shift = elements % 5;
        const std::string_view part =
            std::string_view(source).substr(shift + 7, elements * how.from_bytes());
        const std::string wanted = reference_bytes(part, from, to);
        std::string made(shift + wanted.size() + 8, 'x');
        convert(reinterpret_cast<const std::byte*>(part.data()),
                reinterpret_cast<std::byte*>(made.data() + shift), elements, how);
        CHECK(made == std::string(shift, 'x') + wanted + std::string(8, 'x'));
      }
    }
  }
}

TEST_CASE("convert: the rounding mode of a thread makes no difference") {
  std::vector<std::string> wanted;
  for (const int mode : {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    std::fesetround(mode);
    std::vector<std::string> made;
    for (const dtype from : small_sources) {
      for (const dtype to : targets) {
        if (convertible(from, to)) made.push_back(converted_bytes(every_word_of(from), from, to));
      }
    }
    std::fesetround(FE_TONEAREST);
    if (wanted.empty()) wanted = made;
    CHECK(made == wanted);
  }
}

TEST_CASE("convertible: six types, to three, and never to themselves") {
  unsigned count = 0;
  for (unsigned from = 0; from < dtype_count; ++from) {
    for (unsigned to = 0; to < dtype_count; ++to) {
      count += convertible(static_cast<dtype>(from), static_cast<dtype>(to)) ? 1 : 0;
    }
  }
  CHECK(count == 15);
  CHECK(convertible(dtype::f8_e4m3fn, dtype::bf16));
  CHECK(convertible(dtype::f64, dtype::f32));
  CHECK_FALSE(kernels_convert(dtype::f64, dtype::f32));
  CHECK(kernels_convert(dtype::f16, dtype::f32));
  CHECK_FALSE(convertible(dtype::f32, dtype::f8_e4m3fn));
  CHECK_FALSE(convertible(dtype::f8_e4m3fnuz, dtype::bf16));
  CHECK_FALSE(convertible(dtype::bf16, dtype::bf16));
}
