// SPDX-License-Identifier: Apache-2.0

// Conversion between any two of the 15 element kinds; convert_test.cpp has those of
// load_options::dtype in more detail.

#include <doctest/doctest.h>

#include <cfenv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "base/numeric/convert.hpp"
#include "base/numeric/convert_any.hpp"
#include "support/element_reference.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

using words = std::vector<std::uint64_t>;

std::size_t bytes_of_type(dtype type) { return bits(type) / 8; }

words converted_words(const words& source, dtype from, dtype to) {
  const std::size_t in = bytes_of_type(from);
  const std::size_t out = bytes_of_type(to);
  std::vector<std::byte> stored(source.size() * in);
  std::vector<std::byte> made(source.size() * out);
  for (std::size_t i = 0; i < source.size(); ++i) {
    std::memcpy(stored.data() + i * in, &source[i], in);
  }
  convert(stored.data(), made.data(), source.size(),
          {*element_kind_of(from), *element_kind_of(to)});
  words all(source.size());
  for (std::size_t i = 0; i < all.size(); ++i) std::memcpy(&all[i], made.data() + i * out, out);
  return all;
}

std::string described(std::uint64_t word, dtype from, std::uint64_t made, dtype to,
                      std::uint64_t wanted) {
  std::ostringstream text;
  text << name(from) << " 0x" << std::hex << word << " to " << name(to) << ": 0x" << made
       << ", and not 0x" << wanted;
  return text.str();
}

// Describes the first element that differs from the reference.
std::string first_difference(const words& source, dtype from, dtype to) {
  const words made = converted_words(source, from, to);
  for (std::size_t i = 0; i < source.size(); ++i) {
    const std::uint64_t wanted = element_reference(source[i], from, to);
    if (made[i] != wanted) return described(source[i], from, made[i], to, wanted);
  }
  return {};
}

words every_word_of(dtype type) {
  words all(std::size_t{1} << bits(type));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
  return all;
}

// Numbers of the 8-bit and 16-bit formats, the midpoints between them, and the limits of the
// integer types and their halves.
const std::vector<long double>& corner_numbers() {
  static const std::vector<long double> all = [] {
    std::vector<long double> made;
    for (const dtype type : {dtype::f8_e4m3fn, dtype::f8_e5m2, dtype::f16, dtype::bf16}) {
      const std::uint64_t step = bits(type) == 8 ? 1 : 97;
      for (std::uint64_t w = 0; w < std::uint64_t{1} << (bits(type) - 1); w += step) {
        const long double here = number_of(w, type);
        const long double next = number_of(w + 1, type);
        made.insert(made.end(), {here, (here + next) / 2});
      }
    }
    for (int power = -20; power <= 64; ++power) {
      for (const long double off : {-1.5L, -1.0L, -0.5L, 0.0L, 0.5L, 1.0L, 1.5L}) {
        made.push_back(std::ldexp(1.0L, power) + off);
      }
    }
    made.insert(made.end(), {448.0L, 464.0L, 480.0L, 496.0L, 512.0L, 65'504.0L, 65'520.0L,
                             57'344.0L, 61'440.0L, 0x1.FFFFFEp127L, 0x1.FFFFFFp127L, 0x1p128L,
                             0x1p-149L, 0x1p-150L, 0x1p-1074L, INFINITY, NAN});
    return made;
  }();
  return all;
}

// Words at and next to each limit of the type, with both signs, and random words. Half of the
// random words have few bits, so that small integers and short fractions occur.
words chosen_words(dtype type) {
  const std::uint64_t mask = ~std::uint64_t{0} >> (64 - bits(type));
  words all;
  for (const long double corner : corner_numbers()) {
    for (const long double number : {corner, -corner}) {
      const std::uint64_t word = word_of(number, type);
      for (const std::uint64_t near : {word - 1, word, word + 1}) all.push_back(near & mask);
    }
  }
  std::mt19937_64 random(11);
  for (unsigned i = 0; i < 20'000; ++i) {
    const auto shift = static_cast<unsigned>(random() % bits(type));
    const std::uint64_t word = random() & mask;
    all.push_back(i % 4 == 0 ? word >> shift : i % 4 == 1 ? (word << shift) & mask : word);
    // A double whose exponent suits the narrower formats.
    if (type == dtype::f64) all.push_back((word >> 12U) | (0x380ULL + random() % 256) << 52U);
  }
  return all;
}

std::uint64_t word_of_f64(double number) {
  std::uint64_t word = 0;
  std::memcpy(&word, &number, sizeof word);
  return word;
}

}  // namespace

TEST_CASE("convert: every element of 8 and 16 bits becomes what it should, in every type") {
  for (const dtype from : element_kinds) {
    if (bits(from) > 16) continue;
    for (const dtype to : element_kinds) {
      if (from != to) CHECK(first_difference(every_word_of(from), from, to) == "");
    }
  }
}

TEST_CASE("convert: elements of 32 and 64 bits, wherever rounding or range decides") {
  for (const dtype from : element_kinds) {
    if (bits(from) < 32) continue;
    const words source = chosen_words(from);
    for (const dtype to : element_kinds) {
      if (from != to) CHECK(first_difference(source, from, to) == "");
    }
  }
}

TEST_CASE("convert: what PyTorch's copy_ makes of the same elements") {
  std::ifstream in(std::string(RINGLOAD_TEST_DATA_DIR) + "/torch/conversions.txt");
  std::string from_name;
  std::string to_name;
  std::uint64_t word = 0;
  std::uint64_t wanted = 0;
  unsigned count = 0;
  while (in >> from_name >> std::hex >> word >> to_name >> wanted) {
    const dtype from = *dtype_named(from_name);
    const dtype to = *dtype_named(to_name);
    const std::uint64_t made = converted_words({word}, from, to).front();
    ++count;
    // PyTorch's NaNs differ in sign and payload by processor.
    if (std::isnan(number_of(wanted, to)) && std::isnan(number_of(made, to))) continue;
    CHECK_MESSAGE(made == wanted, described(word, from, made, to, wanted));
  }
  CHECK(in.eof());
  CHECK(count > 5'000);
}

TEST_CASE("convert: to 8 and 16 bits there is one rounding, not one to f32 before it") {
  // Slightly above the midpoint of 1 and the next f16. After rounding to f32, it would be a tie and
  // become 1.
  CHECK(converted_words({word_of_f64(0x1.00200000001p0)}, dtype::f64, dtype::f16) == words{0x3C01});
  CHECK(converted_words({word_of_f64(0x1.01000000001p0)}, dtype::f64, dtype::bf16) ==
        words{0x3F81});
  CHECK(converted_words({word_of_f64(0x1.10000000001p0)}, dtype::f64, dtype::f8_e4m3fn) ==
        words{0x39});
  // 2^62 + 2^54 is the midpoint of two bf16.
  const std::uint64_t midpoint = (std::uint64_t{1} << 62U) + (std::uint64_t{1} << 54U);
  CHECK(converted_words({midpoint, midpoint + 1}, dtype::i64, dtype::bf16) ==
        words{0x5E80, 0x5E81});
  CHECK(converted_words({midpoint, midpoint + 1}, dtype::u64, dtype::bf16) ==
        words{0x5E80, 0x5E81});
  // 2^63 + 2^39 is the midpoint of two f32.
  const std::uint64_t single = (std::uint64_t{1} << 63U) + (std::uint64_t{1} << 39U);
  CHECK(converted_words({single, single + 1}, dtype::u64, dtype::f32) ==
        words{0x5F000000, 0x5F000001});
}

TEST_CASE("convert: to an integer the fraction is cut off, the range is kept, and NaN is 0") {
  const words some = {word_of_f64(-1.9), word_of_f64(127.9), word_of_f64(128),
                      word_of_f64(-129), word_of_f64(1e300), word_of_f64(NAN)};
  CHECK(converted_words(some, dtype::f64, dtype::i8) == words{0xFF, 0x7F, 0x7F, 0x80, 0x7F, 0});
  CHECK(converted_words(some, dtype::f64, dtype::u8) == words{0, 0x7F, 0x80, 0, 0xFF, 0});
  CHECK(converted_words(some, dtype::f64, dtype::boolean) == words{1, 1, 1, 1, 1, 1});
  CHECK(converted_words({300, ~std::uint64_t{0}}, dtype::i64, dtype::u8) == words{255, 0});
  CHECK(converted_words({~std::uint64_t{0}}, dtype::u64, dtype::i64) ==
        words{~std::uint64_t{0} / 2});
}

TEST_CASE("convert: f8_e4m3 has 448 for what is too large, and f8_e5m2 infinity") {
  const words some = {word_of_f64(464), word_of_f64(464.01), word_of_f64(-1e9),
                      word_of_f64(INFINITY)};
  CHECK(converted_words(some, dtype::f64, dtype::f8_e4m3fn) == words{0x7E, 0x7E, 0xFE, 0x7E});
  CHECK(converted_words({word_of_f64(NAN)}, dtype::f64, dtype::f8_e4m3fn) == words{0x7F});
  const words more = {word_of_f64(61'439), word_of_f64(61'440), word_of_f64(-INFINITY)};
  CHECK(converted_words(more, dtype::f64, dtype::f8_e5m2) == words{0x7B, 0x7C, 0xFC});
}

TEST_CASE("convert: any number of elements of any two types, from and to any address") {
  std::mt19937_64 random(5);
  for (const dtype from : element_kinds) {
    for (const dtype to : element_kinds) {
      if (from == to) continue;
      for (const std::size_t elements : {0U, 1U, 63U, 65U, 255U, 256U, 257U, 513U}) {
        const std::size_t shift = elements % 7;
        std::string stored(shift + elements * bytes_of_type(from), '\0');
        for (char& each : stored) each = static_cast<char>(random());
        std::string wanted(shift, 'x');
        for (std::size_t i = 0; i < elements; ++i) {
          std::uint64_t word = 0;
          std::memcpy(&word, stored.data() + shift + i * bytes_of_type(from), bytes_of_type(from));
          word = element_reference(word, from, to);
          wanted.append(reinterpret_cast<const char*>(&word), bytes_of_type(to));
        }
        wanted += "xxxxxxxx";
        std::string made(wanted.size(), 'x');
        convert(reinterpret_cast<const std::byte*>(stored.data() + shift),
                reinterpret_cast<std::byte*>(made.data() + shift), elements,
                {*element_kind_of(from), *element_kind_of(to)});
        CHECK_MESSAGE(made == wanted, name(from) << " to " << name(to) << ", " << elements);
      }
    }
  }
}

TEST_CASE("convert: the rounding mode makes no difference to any two types") {
  for (const dtype from : element_kinds) {
    const words source = bits(from) <= 16 ? every_word_of(from) : chosen_words(from);
    for (const dtype to : element_kinds) {
      if (from == to) continue;
      const words wanted = converted_words(source, from, to);
      for (const int mode : {FE_UPWARD, FE_DOWNWARD}) {
        std::fesetround(mode);
        const words made = converted_words(source, from, to);
        std::fesetround(FE_TONEAREST);
        CHECK_MESSAGE(made == wanted, name(from) << " to " << name(to));
      }
    }
  }
}

TEST_CASE("fill_converts: fifteen types, to each other, and never to themselves") {
  unsigned count = 0;
  for (unsigned from = 0; from < dtype_count; ++from) {
    for (unsigned to = 0; to < dtype_count; ++to) {
      count += fill_converts(static_cast<dtype>(from), static_cast<dtype>(to)) ? 1 : 0;
    }
  }
  CHECK(count == 15 * 14);
  CHECK(fill_converts(dtype::i64, dtype::boolean));
  CHECK(fill_converts(dtype::f32, dtype::f8_e4m3fn));
  CHECK_FALSE(fill_converts(dtype::f8_e4m3fnuz, dtype::f32));
  CHECK_FALSE(fill_converts(dtype::f32, dtype::c64));
  CHECK_FALSE(fill_converts(dtype::f16, dtype::f16));
  for (const dtype type : element_kinds) {
    CHECK(dtype_of(*element_kind_of(type)) == type);
    CHECK(bytes_of(*element_kind_of(type)) == bits(type) / 8);
  }
}
