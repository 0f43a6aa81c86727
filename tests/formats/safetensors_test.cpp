// SPDX-License-Identifier: Apache-2.0
#include "formats/safetensors/safetensors.hpp"

#include <doctest/doctest.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <ringload/dtype.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "support/safetensors_text.hpp"

using namespace ringload;
using namespace std::string_view_literals;
using ringload::testing::bytes_of;
using ringload::testing::header_text;
using ringload::testing::safetensors_prefix;
using ringload::testing::safetensors_text;
using ringload::testing::tensor_text;

namespace {

// Reads like the catalog: first the prefix, then the header of the stated length.
result<file_entries> read_file(std::string_view file, strictness strictness = strictness::strict) {
  const auto end = safetensors_header_end(bytes_of(file.substr(0, 8)), file.size());
  if (!end) return end.error();
  return parse_safetensors(bytes_of(file.substr(8, *end - 8)), file.size(), strictness);
}

boost::system::error_code code_of(std::string_view file) {
  const auto strict = read_file(file, strictness::strict);
  const auto reference = read_file(file, strictness::reference);
  // Both values of `strictness` have the same results in this file.
  CHECK(strict.has_value() == reference.has_value());
  if (strict) return {};
  if (!reference) CHECK(strict.error().code == reference.error().code);
  return strict.error().code;
}

std::string message(std::string_view file) {
  const auto answer = read_file(file);
  return answer ? "" : message_of(answer.error());
}

// Padded with spaces, as writers do, so that the data is aligned to 8.
std::string padded(std::string header) {
  while (header.size() % 8 != 0) header += ' ';
  return header;
}

const std::string four_i32 = R"({"test":{"dtype":"I32","shape":[2,2],"data_offsets":[0,16]}})";
const std::string zeros(16, '\0');

}  // namespace

TEST_CASE("safetensors: test_deserialization and test_lifetimes") {
  REQUIRE(four_i32.size() == 60);
  const auto found = read_file(safetensors_text(four_i32, zeros));
  REQUIRE(found.has_value());
  REQUIRE(found->tensors.size() == 1);
  const entry& test = found->tensors[0];
  CHECK(test.name == "test");
  CHECK(test.dtype == dtype::i32);
  CHECK(test.shape == std::vector<std::uint64_t>{2, 2});
  CHECK(test.offset == 68);
  CHECK(test.bytes == 16);
}

TEST_CASE("safetensors: test_empty_shapes_allowed") {
  const std::string header = R"({"test":{"dtype":"I32","shape":[],"data_offsets":[0,4]}})";
  REQUIRE(header.size() == 56);
  const auto found = read_file(safetensors_text(header, zeros.substr(0, 4)));
  REQUIRE(found.has_value());
  CHECK(found->tensors[0].shape.empty());
  CHECK(found->tensors[0].bytes == 4);
}

TEST_CASE("safetensors: test_zero_sized_tensor") {
  const std::string header = R"({"test":{"dtype":"I32","shape":[2,0],"data_offsets":[0, 0]}})";
  REQUIRE(header.size() == 60);
  const auto found = read_file(safetensors_text(header));
  REQUIRE(found.has_value());
  CHECK(found->tensors[0].shape == std::vector<std::uint64_t>{2, 0});
  CHECK(found->tensors[0].bytes == 0);
}

TEST_CASE("safetensors: test_metadata_incomplete_buffer") {
  CHECK(code_of(safetensors_text(four_i32, zeros + "extra_bogus_data_for_polyglot_file")) ==
        errc::trailing_bytes);
  CHECK(code_of(safetensors_text(four_i32, zeros.substr(0, 14))) == errc::extent_outside_file);
}

TEST_CASE("safetensors: test_header_too_large, test_header_too_small, test_invalid_header_length") {
  CHECK(code_of("\x3C\0\0\0\0\xFF\xFF\xFF"sv) == errc::header_too_large);
  CHECK(code_of("") == errc::header_too_small);
  CHECK(code_of("\x3C\0\0\0\0\0\0"sv) == errc::header_too_small);
  CHECK(code_of(safetensors_prefix(60)) == errc::header_outside_file);
  CHECK(code_of(safetensors_text(four_i32).substr(0, 40)) == errc::header_outside_file);
}

TEST_CASE("safetensors: test_invalid_header_non_utf8, test_invalid_header_not_json") {
  CHECK(code_of(safetensors_text("\xFF")) == errc::header_not_utf8);
  CHECK(code_of(safetensors_text("{")) == errc::malformed_header);
  // UTF-8 is checked before JSON, over the whole header.
  CHECK(code_of(safetensors_text("{]\xFF")) == errc::header_not_utf8);
  CHECK(code_of(safetensors_text("")) == errc::malformed_header);
}

TEST_CASE("safetensors: test_whitespace_padded_header on both sides") {
  for (const auto header : {"{}\r \t\n"sv, "\t\n{}\r "sv, "{}"sv, "{}      "sv}) {
    const auto found = read_file(safetensors_text(header));
    REQUIRE(found.has_value());
    CHECK(found->tensors.empty());
  }
  for (const auto header : {"{}\0"sv, "{}\f"sv, "\0{}"sv, "\xEF\xBB\xBF{}"sv, "{}\xC2\xA0"sv,
                            "{}{}"sv, "{} x"sv, " "sv}) {
    CAPTURE(header);
    CHECK(code_of(safetensors_text(header)) == errc::malformed_header);
  }
}

TEST_CASE("safetensors: test_invalid_info, test_validation_overflow, test_json_attack") {
  const auto file = [](std::string_view shape, std::uint64_t end, std::size_t bytes) {
    return safetensors_text(header_text({tensor_text("test", "I32", shape, 0, end)}),
                            std::string(bytes, '\0'));
  };
  CHECK(code_of(file("2,2", 4, 0)) == errc::wrong_tensor_bytes);
  CHECK(code_of(file("2,18446744073709551614", 16, 16)) == errc::size_overflow);
  CHECK(code_of(file("2,9223372036854775807", 16, 16)) == errc::size_overflow);

  std::string header = "{";
  for (int i = 0; i < 10; ++i) {
    header += (i == 0 ? "" : ",") + tensor_text("weight_" + std::to_string(i), "F32", "2,2", 0, 16);
  }
  CHECK(code_of(safetensors_text(header + "}", zeros)) == errc::invalid_offsets);
}

TEST_CASE("safetensors: what the reference's writer makes reads back") {
  const auto read = [](const std::string& header, std::size_t header_bytes, std::size_t bytes) {
    const std::string text = padded(header);
    CHECK(text.size() == header_bytes);
    auto found = read_file(safetensors_text(text, std::string(bytes, '\0')));
    REQUIRE(found.has_value());
    return *found;
  };
  CHECK(read("{}", 8, 0).tensors.empty());
  CHECK(read(R"({"__metadata__":{"framework":"pt"}})", 40, 0).metadata ==
        attributes{{"framework", "pt"}});
  CHECK(
      read(header_text({tensor_text("attn.0", "F32", "1,2,3", 0, 24)}), 64, 24).tensors[0].offset ==
      72);
  CHECK(
      read(header_text({tensor_text("attn0", "F32", "1,1,2,3", 0, 24)}), 72, 24).tensors[0].offset %
          8 ==
      0);
  CHECK(read(header_text({tensor_text("attn.0", "F4", "1,2", 0, 1)}), 64, 1).tensors[0].bytes == 1);
  CHECK(code_of(safetensors_text(header_text({tensor_text("a", "F4", "1,3", 0, 2)}), "ab")) ==
        errc::fractional_bytes);
  CHECK(code_of(safetensors_text(header_text({tensor_text("a", "F4", "1,2", 0, 2)}), "ab")) ==
        errc::wrong_tensor_bytes);
}

TEST_CASE("safetensors: the files of the Python tests read back") {
  const auto bf16 =
      read_file(safetensors_text(padded(header_text({tensor_text("test", "BF16", "2,2", 0, 8)})),
                                 "\x10\x40\x80\x3F\x80\x3F\x80\x3F"));
  REQUIRE(bf16.has_value());
  CHECK(bf16->tensors[0].offset == 72);
  CHECK(bf16->tensors[0].bytes == 8);

  const auto c64 = read_file(safetensors_text(
      padded(header_text({tensor_text("test", "C64", "2,2", 0, 32)})), std::string(32, '\0')));
  REQUIRE(c64.has_value());
  CHECK(c64->tensors[0].dtype == dtype::c64);

  const std::string with_metadata =
      R"({"__metadata__":{"framework":"pt"},)" +
      header_text({tensor_text("test1", "I32", "2,2", 0, 16)}).substr(1);
  const auto found = read_file(safetensors_text(with_metadata + std::string(7, ' '), zeros));
  REQUIRE(found.has_value());
  CHECK(found->metadata[0].second == "pt");
  CHECK(read_file(safetensors_text(padded(with_metadata), zeros))->tensors[0].offset == 104);

  const std::string two = padded(header_text(
      {tensor_text("test1", "I32", "2,2", 0, 16), tensor_text("test2", "F16", "2,2", 16, 24)}));
  CHECK(two.size() == 128);
  const auto both = read_file(safetensors_text(two, zeros + "12345678"));
  REQUIRE(both.has_value());
  CHECK(both->tensors[1].offset == 152);
}

TEST_CASE("safetensors: scalars, empty tensors and packed types stand side by side") {
  const std::string header = header_text(
      {tensor_text("bool", "BOOL", "", 0, 1), tensor_text("none", "F16", "0,5", 1, 1),
       tensor_text("none2", "F32", "2,0", 1, 1), tensor_text("fp4", "F4", "2,4", 1, 5),
       tensor_text("scale", "F8_E8M0", "1", 5, 6), tensor_text("i64", "I64", "5", 6, 46)});
  const auto found = read_file(safetensors_text(header, std::string(46, '\0')));
  REQUIRE(found.has_value());
  CHECK(found->tensors.size() == 6);
  CHECK(found->tensors[3].bytes == 4);
}

TEST_CASE("safetensors: a cut header and a liar are refused") {
  const std::string file = safetensors_text(four_i32, zeros);
  CHECK(code_of(file.substr(0, 8 + 30)) == errc::header_outside_file);
  CHECK(code_of(safetensors_text(
            R"({"liar":{"dtype":"F32","shape":[1024,1024],"data_offsets":[0,4194304]}})", "x")) ==
        errc::extent_outside_file);
}

TEST_CASE("safetensors: every dtype has its width") {
  for (unsigned i = 0; i < dtype_count; ++i) {
    const auto type = static_cast<dtype>(i);
    const std::uint64_t bytes = bits(type);  // The size of eight elements.
    CAPTURE(name(type));
    const auto file = [&](std::uint64_t end) {
      return safetensors_text(header_text({tensor_text("t", name(type), "2,4", 0, end)}),
                              std::string(end, '\0'));
    };
    if (type == dtype::c128) {  // Only other formats have this type.
      CHECK(code_of(file(bytes)) == errc::malformed_header);
      continue;
    }
    const auto found = read_file(file(bytes));
    REQUIRE(found.has_value());
    CHECK(found->tensors[0].dtype == type);
    CHECK(found->tensors[0].bytes == bytes);
    CHECK(code_of(file(bytes + 1)) == errc::wrong_tensor_bytes);
    CHECK(code_of(file(bytes - 1)) == errc::wrong_tensor_bytes);
  }
}

TEST_CASE("safetensors: attack 1, a header length that was overwritten") {
  std::string file = safetensors_text(four_i32, zeros);
  file.replace(0, 8, safetensors_prefix(1000));
  CHECK(code_of(file) == errc::header_outside_file);
}

TEST_CASE("safetensors: attack 2, an 800 MB header is refused by its length alone") {
  const std::uint64_t header_bytes = 800'000'000;
  const auto refused =
      safetensors_header_end(bytes_of(safetensors_prefix(header_bytes)), 2 * header_bytes);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == errc::header_too_large);
}

TEST_CASE("safetensors: attack 3, tensors that all claim the same bytes") {
  std::string header = "{";
  for (int i = 0; i < 100'000; ++i) {
    header += (i == 0 ? "" : ",") +
              tensor_text("weight_" + std::to_string(i), "F32", "200,200", 0, 160'000);
  }
  header += "}";
  const auto refused =
      parse_safetensors(bytes_of(header), 8 + 2 * header.size(), strictness::strict);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == errc::invalid_offsets);
}

TEST_CASE("safetensors: a header may have 100,000,000 bytes and not one more") {
  const std::uint64_t most = safetensors_header_bytes_max;
  CHECK(safetensors_header_end(bytes_of(safetensors_prefix(most)), most + 8).value() == most + 8);
  CHECK(safetensors_header_end(bytes_of(safetensors_prefix(most)), most + 7).error().code ==
        errc::header_outside_file);
  CHECK(safetensors_header_end(bytes_of(safetensors_prefix(most + 1)), most + 9).error().code ==
        errc::header_too_large);

  std::string header(most, ' ');
  header.front() = '{';
  header.back() = '}';
  const auto found = parse_safetensors(bytes_of(header), most + 8, strictness::strict);
  REQUIRE(found.has_value());
  CHECK(found->notes.size() == 1);
  header += ' ';
  CHECK(parse_safetensors(bytes_of(header), most + 9, strictness::strict).error().code ==
        errc::header_too_large);
}

TEST_CASE("safetensors: a header that is larger than its file is refused") {
  CHECK(parse_safetensors(bytes_of("{}"), 9, strictness::strict).error().code ==
        errc::header_outside_file);
  CHECK(parse_safetensors(bytes_of("{}"), 0, strictness::strict).error().code ==
        errc::header_outside_file);
}

namespace {

double cpu_seconds() {
  ::timespec now = {};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Processor time of this thread, which does not depend on other processes.
double seconds_to_parse(std::uint64_t tensors) {
  std::string header = "{";
  for (std::uint64_t i = 0; i < tensors; ++i) {
    header += (i == 0 ? "" : ",") + tensor_text("model.layers.experts." + std::to_string(i) + ".w",
                                                "U8", "64,128", i * 8192, (i + 1) * 8192);
  }
  header += "}";
  const double begin = cpu_seconds();
  const auto found =
      parse_safetensors(bytes_of(header), 8 + header.size() + tensors * 8192, strictness::strict);
  const double took = cpu_seconds() - begin;
  REQUIRE(found.has_value());
  CHECK(found->tensors.size() == tensors);
  return took;
}

}  // namespace

TEST_CASE("safetensors: the time of a header does not grow with the square of its tensors") {
  const double few = seconds_to_parse(10'000);
  const double many = seconds_to_parse(100'000);
  CAPTURE(few);
  CAPTURE(many);
  CHECK(many < 40 * few);  // A quadratic search would take 100 times as long.
}

TEST_CASE("safetensors: messages name the tensor, the byte of the file and the numbers") {
  CHECK(message(safetensors_text(four_i32, zeros.substr(0, 14))) ==
        "tensor 'test', byte 16: its bytes end at 84 but the file ends at 82");
  CHECK(message(safetensors_text(four_i32, zeros + "xx")) ==
        "byte 84: the last tensor ends here, but the file ends at 86");
  CHECK(message(safetensors_text(R"({"a":{"dtype":"I3"}})")) ==
        "tensor 'a', byte 22: unknown dtype 'I3'");
  CHECK(message(safetensors_text(R"({"a":{"dtype":"U8","shape":[]}})")) ==
        "tensor 'a', byte 38: the entry has no 'data_offsets'");
  CHECK(message(safetensors_text(R"({"__metadata__":{"a":1}})")) ==
        "__metadata__, byte 29: expected a string but found '1}}'");
  CHECK(message(safetensors_text("{\"a\nb\":1}")) ==
        "byte 11: a control character inside a string is not escaped");
}

TEST_CASE("safetensors: an error stays one clean line whatever the tensor is called") {
  const std::string name = R"(a\u0000\n\u001b[31m)" + std::string(10'000, 'x');
  const auto refused =
      read_file(safetensors_text(
                    "{\"" + name + R"(":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", "ab"),
                strictness::reference);
  REQUIRE_FALSE(refused.has_value());
  const std::string text = message_of(refused.error());
  CHECK(text.size() < 300);
  CHECK(std::ranges::none_of(text, [](char c) { return c >= 0 && c < ' '; }));
  CHECK(text.starts_with("tensor 'a\\u0000\\u000a\\u001b[31mxxx"));
}
