// SPDX-License-Identifier: Apache-2.0
#include "formats/gguf/gguf.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "expected_tensors.hpp"
#include "formats/gguf/gguf_types.hpp"
#include "gguf_text.hpp"
#include "texts_of.hpp"

using namespace ringload;
using ringload::testing::bytes_of;
using ringload::testing::gguf_text;
using ringload::testing::number_text;
using ringload::testing::texts_of;

namespace {

constexpr std::uint32_t f32 = 0;
constexpr std::uint32_t q4_0 = 2;
constexpr std::uint32_t i8 = 24;
constexpr std::uint64_t two_to_62 = std::uint64_t{1} << 62;

result<file_entries> parsed(std::string_view file, strictness strictness = strictness::strict) {
  memory_input in(bytes_of(file));
  return parse_gguf(in, strictness);
}

boost::system::error_code code_of(std::string_view file,
                                  strictness strictness = strictness::strict) {
  const auto answer = parsed(file, strictness);
  return answer ? boost::system::error_code{} : answer.error().code;
}

std::string message(std::string_view file) {
  const auto answer = parsed(file);
  return answer ? "it was accepted" : message_of(answer.error());
}

using shape_type = std::vector<std::uint64_t>;

}  // namespace

TEST_CASE("gguf: plain tensors have their dimensions in row-major order, and are raw") {
  const std::string file =
      gguf_text().info("a", {3, 2}, f32, 0).info("b", {5}, i8, 32).file(32 + 5);
  const auto found = parsed(file);
  REQUIRE(found.has_value());
  REQUIRE(found->tensors.size() == 2);
  const entry& a = found->tensors[0];
  CHECK(a.name == "a");
  CHECK(a.dtype == dtype::f32);
  CHECK(a.shape == shape_type{2, 3});
  CHECK(a.bytes == 24);
  CHECK(a.offset % 32 == 0);
  CHECK(a.stored == nullptr);
  CHECK(a.type.empty());
  CHECK(found->tensors[1].offset == a.offset + 32);
  CHECK(found->tensors[1].bytes == 5);
  CHECK(found->notes.empty());
}

TEST_CASE("gguf: version 2 is read as version 3 is; versions 0, 1, 4 and swapped 1 are refused") {
  CHECK_FALSE(code_of(gguf_text(2).info("a", {1}, f32, 0).file(4)));
  for (const std::uint32_t version : {0U, 1U, 4U, 0x01000000U, 0x04000000U}) {
    const std::string file = gguf_text(version).file(0);
    CHECK(code_of(file) == errc::unsupported_feature);
  }
  CHECK(message(gguf_text(1).file(0)) == "byte 4: this is version 1 of GGUF, expected 2 or 3");
}

TEST_CASE("gguf: a big-endian file has its plain tensors swapped and its blocks as they are") {
  const std::string file = gguf_text(3, std::endian::big)
                               .string_pair("general.name", "x")
                               .pair("n", 2, std::string("\x01\x02", 2))
                               .info("a", {2}, f32, 0)
                               .info("b", {3}, i8, 32)
                               .info("q", {32}, q4_0, 64)
                               .info("d", {0}, f32, 96)
                               .file(96);
  const auto found = parsed(file);
  REQUIRE(found.has_value());
  REQUIRE(found->tensors.size() == 4);
  const entry& a = found->tensors[0];
  REQUIRE(a.stored != nullptr);
  CHECK(a.stored->swap_bytes == 4);
  REQUIRE(a.stored->pieces.size() == 1);
  const piece& whole = a.stored->pieces[0];
  CHECK(whole.stored.offset == a.offset);
  CHECK(whole.stored.bytes == 8);
  CHECK(whole.stored.decoded_bytes == 8);
  CHECK(whole.stored.stored_codec == codec::raw);
  CHECK(whole.extent == shape_type{2});
  CHECK(whole.origin == shape_type{0});
  CHECK(whole.stride_bytes == shape_type{4});
  CHECK(found->tensors[1].stored == nullptr);
  CHECK(found->tensors[2].stored == nullptr);
  CHECK(found->tensors[3].stored == nullptr);
  CHECK(found->metadata[1] == attributes::value_type{"n", 258});
  REQUIRE(found->notes.size() == 1);
  CHECK(found->notes[0].starts_with("the file is big-endian"));
}

TEST_CASE("gguf: a tensor of blocks is bytes, with its type and the shape of what it means") {
  const auto found = parsed(gguf_text().info("q", {64, 3}, q4_0, 0).file(6 * 18));
  REQUIRE(found.has_value());
  const entry& q = found->tensors[0];
  CHECK(q.dtype == dtype::u8);
  CHECK(q.shape == shape_type{108});
  CHECK(q.bytes == 108);
  CHECK(q.type == "q4_0");
  CHECK(q.original_shape == shape_type{3, 64});
  CHECK(q.stored == nullptr);
}

TEST_CASE("gguf: every type has its block, and no other number is one") {
  // From the format's documents: number, elements and bytes of a block.
  const std::vector<std::array<std::uint32_t, 3>> known = {
      {0, 1, 4},      {1, 1, 2},      {2, 32, 18},   {3, 32, 20},    {6, 32, 22},    {7, 32, 24},
      {8, 32, 34},    {9, 32, 36},    {10, 256, 84}, {11, 256, 110}, {12, 256, 144}, {13, 256, 176},
      {14, 256, 210}, {15, 256, 292}, {16, 256, 66}, {17, 256, 74},  {18, 256, 98},  {19, 256, 50},
      {20, 32, 18},   {21, 256, 110}, {22, 256, 82}, {23, 256, 136}, {24, 1, 1},     {25, 1, 2},
      {26, 1, 4},     {27, 1, 8},     {28, 1, 8},    {29, 256, 56},  {30, 1, 2},     {34, 256, 54},
      {35, 256, 66},  {39, 32, 17},   {40, 64, 36},  {41, 128, 18},  {42, 64, 18}};
  for (const auto& [id, elements, bytes] : known) {
    CAPTURE(id);
    const auto found = parsed(gguf_text().info("x", {elements * 2, 3}, id, 0).file(bytes * 6));
    REQUIRE(found.has_value());
    CHECK(found->tensors[0].bytes == bytes * 6);
    // With one more element, the last block is not whole.
    const std::string odd = gguf_text().info("x", {elements * 2 + 1}, id, 0).file(bytes * 6);
    if (elements > 1) CHECK(code_of(odd) == errc::wrong_tensor_bytes);
  }
  for (std::uint32_t id = 0; id < 300; ++id) {
    const bool listed =
        std::ranges::find(known, id, [](const auto& k) { return k[0]; }) != known.end();
    CHECK((gguf_type_of(id) != nullptr) == listed);
    if (listed) continue;
    CHECK(code_of(gguf_text().info("x", {256}, id, 0).file(4096)) == errc::unsupported_feature);
  }
  CHECK(message(gguf_text().info("x", {256}, 4, 0).file(256)).ends_with("GGUF has removed"));
}

TEST_CASE("gguf: metadata keeps the types of its values") {
  gguf_text text;
  text.string_pair("s", "a \"b\"\n").u32_pair("u", 7);
  text.pair("i", 11, number_text(std::uint64_t{0} - 5));
  text.pair("f", 6, number_text(std::uint32_t{0x3DCCCCCD}));  // 0.1
  text.pair("nan", 12, number_text(std::uint64_t{0x7FF8000000000000}));
  text.pair("yes", 7, "\x01");
  text.pair("strings", 9, text.array(8, 2, text.text("x\"") + text.text("\xFF")));
  text.pair("numbers", 9, text.array(1, 3, std::string("\x01\xFF\x00", 3)));
  text.pair("none", 9, text.array(8, 0, ""));
  const auto found = parsed(text.file(0));
  REQUIRE(found.has_value());
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"s", "a \"b\"\n"},
      {"u", "7"},
      {"i", "-5"},
      {"f", "0.10000000149011612"},
      {"nan", "\"NaN\""},
      {"yes", "true"},
      {"strings", "[\"x\\\"\",\"\xEF\xBF\xBD\"]"},
      {"numbers", "[1,-1,0]"},
      {"none", "[]"}};
  CHECK(texts_of(found->metadata) == expected);
  CHECK(found->metadata.at(1).second == attribute(7));
  CHECK(found->metadata.at(3).second.encoded() == "\xFA\x3D\xCC\xCC\xCD");
  CHECK(found->metadata.at(7).second == attribute::json("[1,-1,0]"));
}

TEST_CASE("gguf: an f64 that is also an f32 keeps its digits") {
  gguf_text text;
  text.pair("wide", 12, number_text(std::uint64_t{0x3FB99999A0000000}));
  text.pair("array", 9, text.array(12, 1, number_text(std::uint64_t{0x3FB99999A0000000})));
  const auto found = parsed(text.file(0));
  REQUIRE(found.has_value());
  CHECK(found->metadata.at(0).second.text() == "0.10000000149011612");
  CHECK(found->metadata.at(1).second.text() == "[0.10000000149011612]");
}

TEST_CASE("gguf: a file without pairs and tensors is legal, and so are scalars and empty tensors") {
  CHECK_FALSE(code_of(gguf_text().header()));
  const auto found = parsed(gguf_text().info("s", {}, f32, 0).info("e", {0, 4}, f32, 32).file(32));
  REQUIRE(found.has_value());
  CHECK(found->tensors[0].shape.empty());
  CHECK(found->tensors[0].bytes == 4);
  CHECK(found->tensors[1].bytes == 0);
  CHECK(code_of(gguf_text().info("s", {}, q4_0, 0).file(32)) == errc::wrong_tensor_bytes);
}

TEST_CASE("gguf: a header that ends early is refused at every length") {
  gguf_text text;
  text.string_pair("key", "value");
  text.pair("strings", 9, text.array(8, 2, text.text("x") + text.text("y")));
  text.info("tensor", {4, 8}, f32, 0);
  const std::string file = text.file(128);
  REQUIRE_FALSE(code_of(file));
  for (std::size_t size = 0; size < file.size(); ++size) {
    CAPTURE(size);
    const auto code = code_of(file.substr(0, size));
    const bool in_header = size < file.size() - 128;
    CHECK(code == (in_header ? errc::header_outside_file : errc::extent_outside_file));
  }
}

TEST_CASE("gguf: counts and lengths that the file cannot hold are refused before allocating") {
  const std::uint64_t huge[] = {1000, UINT64_MAX, two_to_62, std::uint64_t{1} << 63};
  for (const std::uint64_t n : huge) {
    CAPTURE(n);
    CHECK(code_of(gguf_text().counts(n, 0).file(64)) == errc::header_outside_file);
    CHECK(code_of(gguf_text().counts(0, n).file(64)) == errc::header_outside_file);
    CHECK(code_of(gguf_text().counts(n, n).file(64)) == errc::header_outside_file);
    const std::string length = number_text(n);
    CHECK(code_of(gguf_text().pair("k", 8, length).file(64)) == errc::header_outside_file);
    for (const std::uint32_t of : {0U, 4U, 7U, 8U, 10U, 12U}) {
      const std::string array = number_text(of) + length;
      CHECK(code_of(gguf_text().pair("k", 9, array).file(64)) == errc::header_outside_file);
    }
  }
}

TEST_CASE("gguf: more tensors or pairs than a model has are refused before they are read") {
  const auto counted = [](std::uint64_t tensors, std::uint64_t pairs) {
    return code_of(gguf_text().counts(tensors, pairs).file(20'000'000));
  };
  CHECK(counted(gguf_tensors_max + 1, 0) == errc::header_too_large);
  CHECK(counted(0, gguf_pairs_max + 1) == errc::header_too_large);
  CHECK(counted(gguf_tensors_max, 0) != errc::header_too_large);
  CHECK(counted(0, gguf_pairs_max) != errc::header_too_large);
}

TEST_CASE("gguf: keys are not empty, not repeated and UTF-8; values have known types") {
  CHECK(code_of(gguf_text().u32_pair("", 1).file(32)) == errc::malformed_header);
  CHECK(code_of(gguf_text().u32_pair("\xFF", 1).file(32)) == errc::malformed_header);
  CHECK(message(gguf_text().u32_pair("a", 1).u32_pair("a", 2).file(32)) ==
        "byte 41: duplicate key 'a'");
  const std::string unknown = gguf_text().pair("a", 13, "12345678").file(32);
  CHECK(code_of(unknown) == errc::malformed_header);
  CHECK(message(unknown).ends_with("unknown value type 13, expected 0 to 12"));
  const std::string two = gguf_text().pair("a", 7, "\x02").file(32);
  CHECK(code_of(two) == errc::malformed_header);
  CHECK_FALSE(code_of(two, strictness::reference));
}

TEST_CASE("gguf: a pair that has arrays inside an array is left out with a note") {
  gguf_text text;
  const std::string numbers = text.array(4, 2, std::string(8, '\1'));
  const std::string strings = text.array(8, 2, text.text("x") + text.text(std::string(300, 'y')));
  const std::string empty = text.array(4, 0, "");
  text.pair("numbers", 9, text.array(9, 3, numbers + empty + numbers));
  text.pair("strings", 9, text.array(9, 2, text.array(9, 1, strings) + strings));
  text.pair("none", 9, text.array(9, 0, ""));
  text.pair("after", 9, text.array(0, 2, "\1\2")).info("t", {1}, f32, 0);
  for (const auto profile : {strictness::strict, strictness::reference}) {
    const auto found = parsed(text.file(4), profile);
    REQUIRE(found.has_value());
    CHECK(found->tensors.size() == 1);
    CHECK(texts_of(found->metadata) ==
          std::vector<std::pair<std::string, std::string>>{{"after", "[1,2]"}});
    REQUIRE(found->notes.size() == 3);
    CHECK(found->notes[1] ==
          "the value of 'strings' is left out, because it has arrays inside an array");
  }
  const std::string file = text.file(4);
  for (std::size_t size = 0; size < text.header().size(); ++size) {
    CHECK(code_of(file.substr(0, size)) == errc::header_outside_file);
  }
}

TEST_CASE("gguf: nested arrays have a limit for their depth and for their number") {
  const auto deep = [](unsigned arrays) {
    gguf_text text;
    std::string value = text.array(0, 1, "\1");
    for (unsigned i = 1; i < arrays; ++i) value = text.array(9, 1, value);
    return code_of(text.pair("k", 9, value).file(0));
  };
  CHECK_FALSE(deep(16));
  CHECK(deep(17) == errc::header_too_large);
  CHECK(deep(1000) == errc::header_too_large);
  const gguf_text many;
  std::string arrays;
  const std::uint64_t half = gguf_strings_max / 2;
  for (std::uint64_t i = 0; i < half; ++i) arrays += many.array(0, 0, "");
  const std::string list = many.array(9, half, arrays);
  CHECK_FALSE(code_of(gguf_text().pair("k", 9, list).file(0)));
  CHECK(code_of(gguf_text().pair("k", 9, many.array(9, 2, list + list)).file(0)) ==
        errc::header_too_large);
}

TEST_CASE("gguf: general.alignment is a u32 and a power of two that leaves the data in the file") {
  const auto with = [](std::uint32_t alignment) {
    return gguf_text().u32_pair("general.alignment", alignment).info("a", {1}, f32, 0);
  };
  for (const std::uint32_t good : {1U, 2U, 8U, 64U, 4096U}) {
    const auto found = parsed(with(good).file(4, good));
    REQUIRE(found.has_value());
    CHECK(found->tensors[0].offset % good == 0);
  }
  for (const std::uint32_t bad : {0U, 3U, 48U, 0xFFFFFFFFU}) {
    CHECK(code_of(with(bad).file(4)) == errc::malformed_header);
  }
  CHECK(code_of(with(0x80000000U).file(4)) == errc::header_outside_file);
  const std::string wide = number_text(std::uint64_t{32});
  CHECK(code_of(gguf_text().pair("general.alignment", 10, wide).file(0)) == errc::malformed_header);
  CHECK(code_of(gguf_text().string_pair("general.alignment", "32").file(0)) ==
        errc::malformed_header);
}

TEST_CASE("gguf: names have 64 bytes at most, or 255 by the reference, stand once, are UTF-8") {
  const auto named = [](const std::string& name) {
    return gguf_text().info(name, {1}, f32, 0).file(32);
  };
  CHECK_FALSE(code_of(named(std::string(64, 'n'))));
  CHECK(message(named(std::string(65, 'n'))) ==
        "byte 24: a tensor's name has 65 bytes, the limit is 64");
  CHECK_FALSE(code_of(named(std::string(65, 'n')), strictness::reference));
  CHECK_FALSE(code_of(named(std::string(255, 'n')), strictness::reference));
  CHECK(code_of(named(std::string(256, 'n')), strictness::reference) == errc::malformed_header);
  CHECK(code_of(named("\xC0\x80")) == errc::header_not_utf8);
  CHECK(code_of(named("")) == errc::malformed_header);
  CHECK_FALSE(code_of(named(""), strictness::reference));
  CHECK(code_of(gguf_text().info("a", {1}, f32, 0).info("a", {1}, f32, 32).file(64)) ==
        errc::duplicate_tensor);
}

TEST_CASE("gguf: dimensions are four at most, and their product is checked also where it is 0") {
  const auto shaped = [](const shape_type& dims) {
    return gguf_text().info("a", dims, f32, 0).file(64);
  };
  CHECK_FALSE(code_of(shaped({2, 2, 2, 2})));
  CHECK(code_of(shaped({1, 1, 1, 1, 1})) == errc::malformed_header);
  CHECK(code_of(shaped({std::uint64_t{1} << 63})) == errc::size_overflow);
  CHECK(code_of(shaped({two_to_62, 4})) == errc::size_overflow);
  CHECK(code_of(shaped({two_to_62, 4, 0})) == errc::size_overflow);
  CHECK(code_of(shaped({0, two_to_62, 4})) == errc::size_overflow);
  // In 64 bits, 2^32 * 2^32 is 0, and so is the size of 2^62 elements of 4 bytes.
  CHECK(code_of(shaped({std::uint64_t{1} << 32, std::uint64_t{1} << 32})) == errc::size_overflow);
  CHECK(code_of(shaped({two_to_62})) == errc::size_overflow);
  CHECK(code_of(shaped({std::uint64_t{1} << 60})) == errc::extent_outside_file);
}

TEST_CASE("gguf: offsets are the running sum of padded sizes, without gap, overlap or swap") {
  const auto two = [](std::uint64_t first, std::uint64_t second) {
    return gguf_text().info("a", {3}, f32, first).info("b", {3}, f32, second).file(256);
  };
  CHECK_FALSE(code_of(two(0, 32)));
  CHECK(code_of(two(0, 64)) == errc::invalid_offsets);
  CHECK(code_of(two(0, 0)) == errc::invalid_offsets);
  CHECK(code_of(two(0, 12)) == errc::invalid_offsets);
  CHECK(code_of(two(32, 0)) == errc::invalid_offsets);
  CHECK(code_of(two(32, 64)) == errc::invalid_offsets);
  CHECK(code_of(two(UINT64_MAX - 31, 0)) == errc::invalid_offsets);
  CHECK(message(two(0, 64)) ==
        "tensor 'b', byte 57: its offset is 64, but the tensors before it end, after alignment, at "
        "32");
}

TEST_CASE("gguf: all data must be there; what follows it is noted, and padding need not be there") {
  const gguf_text text = gguf_text().info("a", {3}, f32, 0);
  CHECK(code_of(text.file(11)) == errc::extent_outside_file);
  CHECK(code_of(text.file(0)) == errc::extent_outside_file);
  CHECK(parsed(text.file(12))->notes.empty());
  CHECK(parsed(text.file(32))->notes.empty());
  const auto more = parsed(text.file(33));
  REQUIRE(more.has_value());
  REQUIRE(more->notes.size() == 1);
  CHECK(more->notes[0].starts_with("bytes follow the last tensor"));
}

TEST_CASE("gguf: a value that is too large for the metadata is left out with a note") {
  gguf_text text;
  const std::uint64_t count = 9'000'000;
  text.pair("many", 9, text.array(7, count, std::string(count, '\x01')));  // "true,", five each.
  text.pair("long", 8, text.text(std::string(gguf_metadata_bytes_max + 1, 'x')));
  text.u32_pair("after", 7);
  const auto found = parsed(text.file(0));
  REQUIRE(found.has_value());
  CHECK(found->metadata.size() == 1);
  CHECK(found->metadata[0].first == "after");
  REQUIRE(found->notes.size() == 2);
  CHECK(found->notes[0].starts_with("the value of 'many' is left out"));
}

TEST_CASE("gguf: a string may take the whole limit, and is left out if its UTF-8 is longer") {
  gguf_text most;
  most.string_pair("most", std::string(gguf_metadata_bytes_max, 'x'));
  const auto whole = parsed(most.string_pair("after", "y").file(0));
  REQUIRE(whole.has_value());
  REQUIRE(whole->metadata.size() == 1);
  CHECK(whole->metadata[0].second.text().size() == gguf_metadata_bytes_max);
  REQUIRE(whole->notes.size() == 1);
  CHECK(whole->notes[0].starts_with("the value of 'after' is left out, because metadata is"));

  gguf_text invalid;
  invalid.string_pair("fits", std::string(1'000'000, '\xFF'));
  invalid.string_pair("long", std::string(6'000'000, '\xFF'));
  const auto replaced = parsed(invalid.string_pair("after", "y").file(0));
  REQUIRE(replaced.has_value());
  REQUIRE(replaced->metadata.size() == 2);
  CHECK(replaced->metadata[0].second.text().size() == 3'000'000);
  CHECK(replaced->metadata[1].first == "after");
  CHECK(replaced->notes.size() == 1);
}

TEST_CASE("gguf: a header without end in a sparse file is given up at the limit") {
  gguf_text text;
  text.pair("k", 9, text.array(8, std::uint64_t{1} << 30, ""));
  ringload::testing::sparse_input endless(text.header(), std::uint64_t{1} << 50);
  const auto answer = parse_gguf(endless, strictness::strict);
  REQUIRE_FALSE(answer.has_value());
  CHECK(answer.error().code == errc::header_outside_file);
}

TEST_CASE("gguf: of a large file the header is read and no data") {
  gguf_text text;
  text.info("a", {1 << 20}, f32, 0);
  const std::string file = text.file(4 << 20);
  ringload::testing::counting_input in(file);
  REQUIRE(parse_gguf(in, strictness::strict).has_value());
  CHECK(in.bytes_read <= 4096);
}

TEST_CASE("gguf: what the package gguf wrote is what is found") {
  using ringload::testing::content_of;
  using ringload::testing::data_path;
  for (const char* name :
       {"plain.gguf", "plain_be.gguf", "blocks.gguf", "wild_blocks.gguf", "other_blocks.gguf"}) {
    CAPTURE(name);
    const std::string path = data_path(std::string("gguf/") + name);
    const std::string file = content_of(path);
    const auto found = parsed(file);
    REQUIRE(found.has_value());
    ringload::testing::check_expected(*found, path, {file});
  }
  const auto plain = parsed(content_of(data_path("gguf/plain_be.gguf")));
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"general.architecture", "test"},
      {"general.name", "plain"},
      {"test.u32", "7"},
      {"test.f32", "0.10000000149011612"},
      {"test.yes", "true"},
      {"test.tokens", "[\"<s>\",\"a\\\"b\",\"\u00e9\"]"},
      {"test.scores", "[0.5,-1,1e+10]"}};
  CHECK(texts_of(plain->metadata) == expected);
}

TEST_CASE("gguf: the files of a series are each a whole file, and say which they are") {
  const auto last = parsed(ringload::testing::content_of(
      ringload::testing::data_path("gguf/split-00003-of-00003.gguf")));
  REQUIRE(last.has_value());
  CHECK(last->tensors.size() == 1);
  const auto value = [&](std::string_view key) {
    const auto at = std::ranges::find(last->metadata, key, &attributes::value_type::first);
    return at == last->metadata.end() ? std::string("none") : at->second.text();
  };
  CHECK(value("split.no") == "2");
  CHECK(value("split.count") == "3");
  CHECK(value("split.tensors.count") == "5");
}
