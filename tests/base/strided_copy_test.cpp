// SPDX-License-Identifier: Apache-2.0
#include "base/numeric/strided_copy.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "base/numeric/convert.hpp"
#include "base/numeric/dequantize.hpp"

using namespace ringload;

namespace {

using bytes = std::vector<std::byte>;

class chance {
 public:
  explicit chance(unsigned seed) : engine_(seed) {}
  std::uint64_t number(std::uint64_t least, std::uint64_t most) {
    return std::uniform_int_distribution<std::uint64_t>(least, most)(engine_);
  }
  bool one_in(std::uint64_t n) { return number(1, n) == 1; }
  std::mt19937_64& engine() { return engine_; }

 private:
  std::mt19937_64 engine_;
};

bytes noise(std::size_t count) {
  std::mt19937_64 by(count);
  bytes made(count);
  for (std::byte& b : made) b = static_cast<std::byte>(by());
  return made;
}

struct trial {
  std::vector<strided_dimension> box;
  element_form element;
  std::uint64_t source_bytes = 0;
  // The destination range of the box's elements, relative to the element at index 0.
  std::int64_t lowest = 0;
  std::int64_t highest = 0;  // Past the last byte.
};

std::uint32_t landed(const element_form& e) {
  return e.cast.needed() ? e.cast.to_bytes() : e.bytes;
}

element_form random_element(chance& by) {
  constexpr std::uint32_t widths[] = {1, 2, 4, 8, 16, 3, 6, 12, 40};
  constexpr conversion kinds[] = {
      {float_type::f32, float_type::bf16},         {float_type::bf16, float_type::f32},
      {float_type::f8_e5m2, float_type::f16},      {element_kind::f64, element_kind::f8_e4m3fn},
      {element_kind::boolean, element_kind::i64},  {element_kind::u64, element_kind::f64},
      {element_kind::i64, element_kind::u8},       {element_kind::i16, element_kind::u32},
      {kind_of(block_type::q4_0), float_type::f32}};
  element_form e;
  e.bytes = widths[by.number(0, 8)];
  if (by.one_in(3)) {
    e.cast = kinds[by.number(0, 8)];
    e.bytes = e.cast.from_bytes();
  }
  if (by.one_in(3)) {
    for (const std::uint8_t unit : {std::uint8_t{8}, std::uint8_t{4}, std::uint8_t{2}}) {
      const bool divides = e.cast.needed() ? e.bytes == unit : e.bytes % unit == 0;
      if (divides && (e.swap_bytes == 0 || by.one_in(2))) e.swap_bytes = unit;
    }
  }
  return e;
}

void finish(trial& t) {
  t.source_bytes = t.element.bytes;
  t.highest = landed(t.element);
  for (const strided_dimension& d : t.box) {
    if (d.count == 0) {
      t.source_bytes = 0;
      return;
    }
    t.source_bytes += (d.count - 1) * d.source_stride;
    const std::int64_t reach = static_cast<std::int64_t>(d.count - 1) * d.destination_stride;
    (reach < 0 ? t.lowest : t.highest) += reach;
  }
}

// The destinations are those of a dense tensor with its dimensions in any order, some with gaps or
// reversed. The stored bytes are dense in another order, or have random strides.
trial random_trial(chance& by) {
  trial t;
  t.element = random_element(by);
  const std::uint64_t rank = by.one_in(20) ? by.number(10, 12) : by.number(0, 6);
  for (std::uint64_t d = 0; d < rank; ++d) {
    const std::uint64_t most = rank > 3 ? 4 : rank > 1 ? 23 : 300;
    const std::uint64_t few = by.one_in(50) ? 0 : by.one_in(6) ? 1 : by.number(1, most);
    t.box.push_back({rank > 6 ? 2 : few, 0, 0});
  }
  std::vector<std::size_t> order(t.box.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::uint64_t stride = landed(t.element);
  if (!by.one_in(3)) std::shuffle(order.begin(), order.end(), by.engine());
  for (const std::size_t d : order) {
    if (by.one_in(8)) stride += by.number(1, 9);
    t.box[d].destination_stride = static_cast<std::int64_t>(stride);
    stride *= std::max<std::uint64_t>(1, t.box[d].count);
    if (by.one_in(8)) t.box[d].destination_stride *= -1;
  }
  if (by.one_in(2)) std::shuffle(order.begin(), order.end(), by.engine());
  const bool anyhow = by.one_in(4);
  stride = t.element.bytes;
  for (const std::size_t d : order) {
    if (by.one_in(8)) stride += by.number(1, 9);
    t.box[d].source_stride = by.one_in(8) ? 0 : anyhow ? by.number(0, 40) : stride;
    stride *= std::max<std::uint64_t>(1, t.box[d].count);
  }
  finish(t);
  return t;
}

void reference_element(const trial& t, const std::byte* from, std::byte* to) {
  bytes one(from, from + t.element.bytes);
  if (t.element.swap_bytes != 0) {
    for (std::size_t at = 0; at < one.size(); at += t.element.swap_bytes) {
      std::reverse(one.begin() + static_cast<std::ptrdiff_t>(at),
                   one.begin() + static_cast<std::ptrdiff_t>(at + t.element.swap_bytes));
    }
  }
  if (t.element.cast.needed()) {
    convert(one.data(), to, 1, t.element.cast);
  } else {
    std::memcpy(to, one.data(), one.size());
  }
}

void reference(const trial& t, std::size_t d, const std::byte* from, std::byte* to) {
  if (d == t.box.size()) return reference_element(t, from, to);
  for (std::uint64_t i = 0; i < t.box[d].count; ++i) {
    reference(t, d + 1, from + i * t.box[d].source_stride,
              to + static_cast<std::int64_t>(i) * t.box[d].destination_stride);
  }
}

// Calls `work` with the offsets of each element of `outer`.
template <class Work>
void for_each_outer(const std::vector<strided_dimension>& outer, const Work& work,
                    std::size_t d = 0, std::uint64_t from = 0, std::int64_t to = 0) {
  if (d == outer.size()) return work(from, to);
  for (std::uint64_t i = 0; i < outer[d].count; ++i) {
    for_each_outer(outer, work, d + 1, from + i * outer[d].source_stride,
                   to + static_cast<std::int64_t>(i) * outer[d].destination_stride);
  }
}

// Consecutive ranges that overlap by less than an element, in any order.
void copy_in_ranges(const strided_map& map, const std::byte* source, std::byte* to, chance& by) {
  struct range {
    std::uint64_t begin, end;
  };
  const std::uint64_t total = map.source_bytes();
  std::vector<range> ranges;
  const std::uint64_t most = by.one_in(3) ? total : std::max<std::uint64_t>(total / 3, 1);
  for (std::uint64_t at = 0; at < total;) {
    const std::uint64_t end = std::min(
        total, at + map.element_bytes - 1 + by.number(1, std::max<std::uint64_t>(1, most)));
    ranges.push_back({at, end});
    if (end == total) break;
    at = end - (map.element_bytes - 1);
  }
  std::shuffle(ranges.begin(), ranges.end(), by.engine());
  for (const range& r : ranges) {
    // A separate copy of the range, so that ASan detects an access beyond it.
    const bytes part(source + r.begin, source + r.end);
    copy_strided(map, part, r.begin, to);
  }
}

}  // namespace

TEST_CASE(
    "copy_strided: any box of any source, in any ranges, is what one element at a time gives") {
  unsigned cut_into_many = 0;
  unsigned of_many_dimensions = 0;
  for (unsigned seed = 0; seed < 6000; ++seed) {
    CAPTURE(seed);
    chance by(seed);
    const trial t = random_trial(by);
    const bytes source = noise(t.source_bytes);
    const std::size_t margin = 64 + seed % 8;
    const auto base = static_cast<std::size_t>(margin) + static_cast<std::size_t>(-t.lowest);
    bytes wanted(base + static_cast<std::size_t>(t.highest) + 64, std::byte{0x5A});
    bytes made = wanted;
    if (t.source_bytes > 0) reference(t, 0, source.data(), wanted.data() + base);

    const coalesced_box all = coalesced(t.box, t.element);
    for_each_outer(all.outer, [&](std::uint64_t from, std::int64_t to) {
      copy_in_ranges(all.map, source.data() + from,
                     made.data() + static_cast<std::ptrdiff_t>(base) + to, by);
    });
    REQUIRE(made == wanted);
    cut_into_many += all.map.rank > 1 ? 1 : 0;
    of_many_dimensions += all.outer.empty() ? 0 : 1;
  }
  CHECK(cut_into_many > 1000);
  CHECK(of_many_dimensions > 10);
}

TEST_CASE("copy_strided: ranges that overlap by an element less one byte write each element once") {
  // Every second one of 7 rows of 5 elements of 4 bytes. The destination is cleared before each
  // range, to check that no element is written twice.
  element_form element;
  element.bytes = 4;
  const coalesced_box all =
      coalesced(std::vector<strided_dimension>{{7, 40, 20}, {5, 8, 4}}, element);
  const bytes source = noise(all.map.source_bytes());
  for (std::uint64_t cut = 1; cut < source.size(); ++cut) {
    std::vector<unsigned> written(7 * 5);
    const std::uint64_t again = cut < 3 ? 0 : cut - 3;
    for (const auto& [begin, end] : {std::pair{std::uint64_t{0}, cut}, {again, source.size()}}) {
      for (const std::byte empty : {std::byte{0}, std::byte{1}}) {
        bytes made(7 * 5 * 4, empty);
        copy_strided(all.map, std::span(source).subspan(begin, end - begin), begin, made.data());
        for (std::size_t i = 0; i < written.size(); ++i) {
          const bool same = std::memcmp(made.data() + i * 4, source.data() + i * 8, 4) == 0;
          if (empty == std::byte{0} && same) ++written[i];
        }
      }
    }
    // If the range is shorter than an element, the second range begins with the first.
    for (const unsigned times : written) REQUIRE(times == 1);
  }
}

TEST_CASE("coalesced: what continues is one dimension, and a contiguous run is bytes") {
  element_form f32;
  f32.bytes = 4;
  SUBCASE("a whole tensor") {
    const auto made = coalesced(std::vector<strided_dimension>{{5, 80, 80}, {20, 4, 4}}, f32);
    CHECK(made.map.rank == 1);
    CHECK(made.map.dimensions[0] == strided_dimension{400, 1, 1});
    CHECK(made.map.element_bytes == 1);
  }
  SUBCASE("columns") {
    const auto made = coalesced(std::vector<strided_dimension>{{5, 80, 40}, {10, 4, 4}}, f32);
    CHECK(made.map.rank == 2);
    CHECK(made.map.dimensions[0] == strided_dimension{5, 80, 40});
    CHECK(made.map.dimensions[1] == strided_dimension{40, 1, 1});
  }
  SUBCASE("Fortran's order") {
    const auto made = coalesced(std::vector<strided_dimension>{{5, 4, 80}, {20, 20, 4}}, f32);
    CHECK(made.map.rank == 2);
    CHECK(made.map.dimensions[0] == strided_dimension{20, 20, 4});
    CHECK(made.map.dimensions[1] == strided_dimension{5, 4, 80});
    CHECK(made.map.element_bytes == 4);
  }
  SUBCASE("complex numbers whose parts are swapped") {
    element_form c64;
    c64.bytes = 8;
    c64.swap_bytes = 4;
    const auto made = coalesced(std::vector<strided_dimension>{{5, 80, 80}, {10, 8, 8}}, c64);
    CHECK(made.map.rank == 1);
    CHECK(made.map.dimensions[0] == strided_dimension{100, 4, 4});
    CHECK(made.map.element_bytes == 4);
  }
  SUBCASE("one element") {
    const auto made = coalesced({}, f32);
    CHECK(made.map.source_bytes() == 4);
    CHECK(made.map.rank == 0);
  }
  SUBCASE("none") {
    const auto made = coalesced(std::vector<strided_dimension>{{5, 80, 80}, {0, 4, 4}}, f32);
    CHECK(made.map.empty());
    CHECK(made.map.source_bytes() == 0);
  }
}

TEST_CASE("coalesced: dimensions beyond the eighth are left to whoever carries it out") {
  // Ten dimensions of 2 elements in Fortran order, so no two dimensions can be merged.
  std::vector<strided_dimension> box;
  for (unsigned d = 0; d < 10; ++d) {
    box.push_back({2, std::uint64_t{4} << d, std::int64_t{4} << (9 - d)});
  }
  element_form f32;
  f32.bytes = 4;
  const auto made = coalesced(box, f32);
  CHECK(made.map.rank == 8);
  REQUIRE(made.outer.size() == 2);
  CHECK(made.outer[0] == strided_dimension{2, 2048, 4});
}
