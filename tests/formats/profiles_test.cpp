// SPDX-License-Identifier: Apache-2.0

// A table of headers with the result of both values of `strictness`. `reference` accepts the
// headers that the safetensors crate accepted in a test.

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/safetensors/safetensors.hpp"
#include "support/safetensors_text.hpp"

using namespace ringload;
using ringload::testing::bytes_of;

namespace {

using code = boost::system::error_code;
const code ok;
const code malformed = errc::malformed_header;

struct row {
  std::string what;
  std::string header;
  std::uint64_t data_bytes;
  code strict;
  code reference;
};

code answer(const row& r, strictness strictness) {
  const auto found =
      parse_safetensors(bytes_of(r.header), 8 + r.header.size() + r.data_bytes, strictness);
  return found ? ok : found.error().code;
}

void check(const std::vector<row>& rows) {
  for (const row& r : rows) {
    CAPTURE(r.what);
    CHECK(answer(r, strictness::strict) == r.strict);
    CHECK(answer(r, strictness::reference) == r.reference);
  }
}

// {"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]<more>}}: one byte of data.
std::string with(std::string_view more) {
  return R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1])" + std::string(more) + "}}";
}

std::string shaped(std::string_view shape) {
  return R"({"t":{"dtype":"U8","shape":)" + std::string(shape) + R"(,"data_offsets":[0,1]}})";
}

std::string placed(std::string_view offsets) {
  return R"({"t":{"dtype":"U8","shape":[1],"data_offsets":)" + std::string(offsets) + "}}";
}

std::string typed(std::string_view dtype) {
  return R"({"t":{"dtype":)" + std::string(dtype) + R"(,"shape":[1],"data_offsets":[0,1]}})";
}

std::string metadata(std::string_view value) {
  return R"({"__metadata__":)" + std::string(value) + "}";
}

std::string named(std::string_view name) {
  return "{\"" + std::string(name) + R"(":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
}

const std::string entry_0_1 = R"({"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
const std::string entry_1_2 = R"({"dtype":"U8","shape":[1],"data_offsets":[1,2]})";

std::string nested(std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

std::string ones(std::size_t count) {
  std::string out = "[1";
  for (std::size_t i = 1; i < count; ++i) out += ",1";
  return out + "]";
}

}  // namespace

TEST_CASE("profiles: 1, a name that stands twice") {
  const std::string twice = R"({"t":)" + entry_0_1 + R"(,"t":)" + entry_0_1 + "}";
  const std::string escaped = R"({"t":)" + entry_0_1 + R"(,"\u0074":)" + entry_0_1 + "}";
  check({{"the same entry", twice, 1, errc::duplicate_tensor, ok},
         {"after unescaping", escaped, 1, errc::duplicate_tensor, ok},
         {"the survivor leaves a hole", R"({"t":)" + entry_0_1 + R"(,"t":)" + entry_1_2 + "}", 2,
          errc::duplicate_tensor, errc::invalid_offsets},
         {"the last one wins",
          R"({"t":)" + entry_1_2 + R"(,"u":)" + entry_1_2 + R"(,"t":)" + entry_0_1 + "}", 2,
          errc::duplicate_tensor, ok},
         {"the first of them has a bad dtype", R"({"t":{"dtype":"U9"},"t":)" + entry_0_1 + "}", 1,
          malformed, malformed}});
}

TEST_CASE("profiles: 1, the reference takes the last of three tensors of one name") {
  const std::string header = R"({"a":)" + entry_1_2 + R"(,"b":)" + entry_0_1 + R"(,"a":)" +
                             entry_0_1 + R"(,"a":{"dtype":"I8","shape":[1],"data_offsets":[1,2]}})";
  const auto found =
      parse_safetensors(bytes_of(header), 8 + header.size() + 2, strictness::reference);
  REQUIRE(found.has_value());
  REQUIRE(found->tensors.size() == 2);
  CHECK(found->tensors[0].name == "b");
  CHECK(found->tensors[1].name == "a");
  CHECK(found->tensors[1].dtype == dtype::i8);
}

TEST_CASE("profiles: 2, other keys that stand twice") {
  const std::string fields =
      R"({"t":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  check({{"in __metadata__", metadata(R"({"a":"1","a":"2"})"), 0, malformed, ok},
         {"in __metadata__, unescaped", metadata(R"({"a":"1","\u0061":"2"})"), 0, malformed, ok},
         {"an unknown field", with(R"(,"x":1,"x":2)"), 1, malformed, ok},
         {"an unknown field, unescaped", with(R"(,"x":1,"\u0078":2)"), 1, malformed, ok},
         {"dtype", fields, 1, malformed, malformed},
         {"shape", with(R"(,"shape":[1])"), 1, malformed, malformed},
         {"data_offsets", with(R"(,"data_offsets":[0,1])"), 1, malformed, malformed},
         {"__metadata__", R"({"__metadata__":{},"__metadata__":{}})", 0, malformed, malformed},
         {"__metadata__ and null", R"({"__metadata__":null,"__metadata__":{}})", 0, malformed,
          malformed},
         {"__metadata__ and its escape", R"({"__metadata__":{},"\u005f_metadata__":{}})", 0,
          malformed, malformed}});
}

TEST_CASE("profiles: 2, the reference takes the last value of a metadata key") {
  const std::string header = metadata(R"({"a":"1","b":"2","a":"3"})");
  const auto found = parse_safetensors(bytes_of(header), 8 + header.size(), strictness::reference);
  REQUIRE(found.has_value());
  CHECK(found->metadata == attributes{{"b", "2"}, {"a", "3"}});
}

TEST_CASE("profiles: 3, forms that the reference accepts by accident") {
  check({{"an entry as an array", R"({"t":["U8",[1],[0,1]]})", 1, malformed, ok},
         {"of two items", R"({"t":["U8",[1]]})", 1, malformed, malformed},
         {"of four items", R"({"t":["U8",[1],[0,1],0]})", 1, malformed, malformed},
         {"of none", R"({"t":[]})", 1, malformed, malformed},
         {"a dtype as an object", typed(R"({"U8":null})"), 1, malformed, ok},
         {"with a value", typed(R"({"U8":1})"), 1, malformed, malformed},
         {"with two types", typed(R"({"U8":null,"I8":null})"), 1, malformed, malformed},
         {"with none", typed("{}"), 1, malformed, malformed},
         {"both", R"({"t":[{"U8":null},[1],[0,1]]})", 1, malformed, ok}});
}

TEST_CASE("profiles: 4, control characters in a name") {
  check({{"NUL", named(R"(a\u0000b)"), 1, malformed, ok},
         {"a line feed", named(R"(a\nb)"), 1, malformed, ok},
         {"escape", named(R"(\u001b[2J)"), 1, malformed, ok},
         {"DEL", named("a\x7F"), 1, malformed, ok},
         {"C1", named(R"(\u0085)"), 1, malformed, ok},
         {"raw", named("a\nb"), 1, malformed, malformed},
         {"no control character", named(R"(a\u00a0b)"), 1, ok, ok},
         {"no character at all", named(""), 1, ok, ok}});
}

TEST_CASE("profiles: 5, rank") {
  check({{"64", shaped(ones(64)), 1, ok, ok},
         {"65", shaped(ones(65)), 1, malformed, ok},
         {"10,000", shaped(ones(10'000)), 1, malformed, ok}});
}

TEST_CASE("profiles: 6, a product that overflows beside a zero") {
  const auto header = [](std::string_view shape) {
    return R"({"t":{"dtype":"U8","shape":)" + std::string(shape) + R"(,"data_offsets":[0,0]}})";
  };
  check({{"zero first", header("[0,9223372036854775808,9223372036854775808]"), 0,
          errc::size_overflow, ok},
         {"zero last", header("[9223372036854775808,2,0]"), 0, errc::size_overflow,
          errc::size_overflow},
         {"no overflow", header("[9223372036854775808,0]"), 0, ok, ok}});
}

TEST_CASE("profiles: 7, nesting under unknown keys") {
  check({{"8 deep", with(R"(,"x":)" + nested(8)), 1, ok, ok},
         {"9 deep", with(R"(,"x":)" + nested(9)), 1, malformed, ok},
         {"125 deep", with(R"(,"x":)" + nested(125)), 1, malformed, ok},
         {"126 deep", with(R"(,"x":)" + nested(126)), 1, malformed, malformed},
         {"a million deep", with(R"(,"x":)" + std::string(1'000'000, '[')), 1, malformed,
          malformed}});
}

TEST_CASE("profiles: 8, a header over 25 MB gets a note in strict") {
  const auto notes = [](std::size_t header_bytes, strictness strictness) {
    std::string header(header_bytes, ' ');
    header.replace(0, 2, "{}");
    const auto found = parse_safetensors(bytes_of(header), 8 + header.size(), strictness);
    REQUIRE(found.has_value());
    return found->notes;
  };
  CHECK(notes(25'000'000, strictness::strict).empty());
  REQUIRE(notes(25'000'001, strictness::strict).size() == 1);
  CHECK(notes(25'000'001, strictness::strict)[0].find("25,000,001") != std::string::npos);
  CHECK(notes(25'000'001, strictness::reference).empty());
}

TEST_CASE("profiles: 9, a last sum that overflows is refused in both") {
  std::string header = "{";
  std::uint64_t begin = 0;
  for (int i = 0; i < 9; ++i) {
    const std::uint64_t bytes = i < 8 ? 2305843009213693951 : UINT64_MAX - begin;
    header +=
        (i == 0 ? "" : ",") + testing::tensor_text("t" + std::to_string(i), "U8",
                                                   std::to_string(bytes), begin, begin + bytes);
    begin += bytes;
  }
  check({{"2^64 - 1", header + "}", 16, errc::size_overflow, errc::size_overflow}});
}

TEST_CASE("profiles: 10, a tensor that is not aligned is accepted, and noted in strict") {
  const std::string header = testing::header_text(
      {testing::tensor_text("b", "U8", "1", 0, 1), testing::tensor_text("f", "F32", "1", 1, 5)});
  check({{"F32 at 1", header, 5, ok, ok}});
  const auto found = parse_safetensors(bytes_of(header), 8 + header.size() + 5, strictness::strict);
  REQUIRE(found.has_value());
  REQUIRE(found->notes.size() == 1);
  CHECK(found->notes[0].find("'f'") != std::string::npos);
}

TEST_CASE("profiles: both accept what strict must not refuse") {
  check(
      {{"leading white space", " \t\r\n" + with(""), 1, ok, ok},
       {"unknown keys", with(R"(,"x":{"y":[1,2.5,"z",null,true]})"), 1, ok, ok},
       {"a 30-digit integer under an unknown key", with(R"(,"x":)" + std::string(30, '1')), 1, ok,
        ok},
       {"keys in any order", R"({"t":{"data_offsets":[0,1],"shape":[1],"dtype":"U8"}})", 1, ok, ok},
       {"tensors in any order", R"({"b":)" + entry_1_2 + R"(,"a":)" + entry_0_1 + "}", 2, ok, ok},
       {"metadata that is null", metadata("null"), 0, ok, ok},
       {"metadata that is empty", metadata("{}"), 0, ok, ok},
       {"metadata at the end", R"({"t":)" + entry_0_1 + R"(,"__metadata__":{"a":"b"}})", 1, ok, ok},
       {"an escaped field", R"({"t":{"\u0064type":"U8","shape":[1],"data_offsets":[0,1]}})", 1, ok,
        ok},
       {"an escaped metadata key", R"({"\u005f_metadata__":{"a":"b"}})", 0, ok, ok},
       {"a surrogate pair", named(R"(\ud83d\ude00)"), 1, ok, ok}});
}

TEST_CASE("profiles: both refuse numbers that are no sizes") {
  std::vector<row> rows;
  for (const std::string number : {"1.0", "1e0", "-0", "-1", "\"1\"", "true", "null", "[1]", "{}",
                                   "18446744073709551616", "01", "+1", "1.", "0x1", "NaN"}) {
    rows.push_back({"shape " + number, shaped("[" + number + "]"), 1, malformed, malformed});
    rows.push_back({"begin " + number, placed("[" + number + ",1]"), 1, malformed, malformed});
    rows.push_back({"end " + number, placed("[0," + number + "]"), 1, malformed, malformed});
  }
  rows.push_back({"2^64 - 1 bytes", shaped("[18446744073709551615]"), 1, errc::size_overflow,
                  errc::size_overflow});
  rows.push_back({"an end of 2^64 - 1", placed("[0,18446744073709551615]"), 1,
                  errc::wrong_tensor_bytes, errc::wrong_tensor_bytes});
  check(rows);
}

TEST_CASE("profiles: both refuse entries that lack something or hold the wrong kind") {
  check({{"no dtype", R"({"t":{"shape":[1],"data_offsets":[0,1]}})", 1, malformed, malformed},
         {"no shape", R"({"t":{"dtype":"U8","data_offsets":[0,1]}})", 1, malformed, malformed},
         {"no data_offsets", R"({"t":{"dtype":"U8","shape":[1]}})", 1, malformed, malformed},
         {"names in capitals", R"({"t":{"DTYPE":"U8","shape":[1],"data_offsets":[0,1]}})", 1,
          malformed, malformed},
         {"an entry that is null", R"({"t":null})", 0, malformed, malformed},
         {"an entry that is a string", R"({"t":"U8"})", 0, malformed, malformed},
         {"a shape that is a number", shaped("1"), 1, malformed, malformed},
         {"a shape that is null", shaped("null"), 1, malformed, malformed},
         {"a nested shape", shaped("[[1]]"), 1, malformed, malformed},
         {"one offset", placed("[0]"), 1, malformed, malformed},
         {"three offsets", placed("[0,1,1]"), 1, malformed, malformed},
         {"no offsets", placed("[]"), 1, malformed, malformed},
         {"offsets as an object", placed(R"({"begin":0,"end":1})"), 1, malformed, malformed}});
}

TEST_CASE("profiles: both refuse dtypes that are none of the 22") {
  std::vector<row> rows;
  for (const std::string name : {"f32", "F8_E4M3FN", "C128", "U4", "F32 ", " F32", "", "FP4",
                                 "E8M0", "UE8", "U3", "I4", "bfloat16"}) {
    rows.push_back({name, typed('"' + name + '"'), 1, malformed, malformed});
  }
  rows.push_back({"null", typed("null"), 1, malformed, malformed});
  rows.push_back({"a number", typed("1"), 1, malformed, malformed});
  rows.push_back({"an array", typed(R"(["U8"])"), 1, malformed, malformed});
  check(rows);
}

TEST_CASE("profiles: both refuse metadata that is not strings") {
  std::vector<row> rows;
  for (const std::string value : {"[]", "1", "true", R"("a")", R"({"a":1})", R"({"a":null})",
                                  R"({"a":{}})", R"({"a":["b"]})", R"({"a":true})"}) {
    rows.push_back({value, metadata(value), 0, malformed, malformed});
  }
  check(rows);
}

TEST_CASE("profiles: both refuse JSON that is not standard") {
  check(
      {{"an array", "[]", 0, malformed, malformed},
       {"null", "null", 0, malformed, malformed},
       {"a string", R"("a")", 0, malformed, malformed},
       {"a number", "1", 0, malformed, malformed},
       {"a comma too many", R"({"t":)" + entry_0_1 + ",}", 1, malformed, malformed},
       {"a comment", "{/**/}", 0, malformed, malformed},
       {"single quotes", "{'t':1}", 0, malformed, malformed},
       {"a second value", "{}{}", 0, malformed, malformed},
       {"1e999 under an unknown key", with(R"(,"x":1e999)"), 1, malformed, malformed},
       {"400 digits under an unknown key", with(R"(,"x":)" + std::string(400, '9')), 1, malformed,
        malformed},
       {"a lone high surrogate", named(R"(\ud800)"), 1, malformed, malformed},
       {"a lone low surrogate", with(R"(,"x":"\udc00")"), 1, malformed, malformed},
       {"a raw control character", with(",\"x\":\"\x01\""), 1, malformed, malformed},
       {"a byte that is not UTF-8", named("\xFF"), 1, errc::header_not_utf8, errc::header_not_utf8},
       {"a raw surrogate", named("\xED\xA0\x80"), 1, errc::header_not_utf8,
        errc::header_not_utf8}});
}
