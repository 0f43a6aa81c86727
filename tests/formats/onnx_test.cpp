// SPDX-License-Identifier: Apache-2.0
#include "formats/onnx/onnx.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "expected_tensors.hpp"
#include "protobuf_text.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

using shape_type = std::vector<std::uint64_t>;

constexpr std::uint64_t f32 = 1;
constexpr std::uint64_t u8 = 2;
constexpr std::uint64_t i16 = 5;
constexpr std::uint64_t i64 = 7;

result<file_entries> parsed(std::string_view file) {
  memory_input in(bytes_of(file));
  return parse_onnx(in, strictness::strict);
}

boost::system::error_code code_of(std::string_view file) {
  const auto answer = parsed(file);
  return answer ? boost::system::error_code{} : answer.error().code;
}

std::string message(std::string_view file) {
  const auto answer = parsed(file);
  return answer ? "it was accepted" : message_of(answer.error());
}

std::string raw(std::string_view bytes) { return proto_bytes(9, bytes); }

std::vector<std::string> names_in(const file_entries& found) {
  std::vector<std::string> out;
  for (const entry& each : found.tensors) out.push_back(each.name);
  return out;
}

// external_data with the location of the data.
std::string external(const std::vector<std::pair<std::string, std::string>>& pairs) {
  std::string out;
  for (const auto& [key, value] : pairs) {
    out += proto_bytes(13, proto_bytes(1, key) + proto_bytes(2, value));
  }
  return out + proto_integer(14, 1);
}

std::string at_location(std::string_view location) {
  return onnx_text(
      onnx_tensor_text("a", f32, {2}, external({{"location", std::string(location)}})));
}

}  // namespace

TEST_CASE("onnx: raw_data lies in the file as it is") {
  const std::string file = onnx_text(onnx_tensor_text("w", f32, {2, 3}, raw(std::string(24, 'x'))));
  const auto found = parsed(file);
  REQUIRE(found.has_value());
  const entry& w = found->tensors.at(0);
  CHECK(w.name == "w");
  CHECK(w.dtype == dtype::f32);
  CHECK(w.shape == shape_type{2, 3});
  CHECK(w.stored == nullptr);
  CHECK(file.substr(w.offset, w.bytes) == std::string(24, 'x'));
  CHECK(code_of(onnx_text(onnx_tensor_text("w", f32, {2, 3}, raw(std::string(23, 'x'))))) ==
        errc::wrong_tensor_bytes);
  CHECK(code_of(onnx_text(onnx_tensor_text("w", f32, {2, 3}, ""))) == errc::wrong_tensor_bytes);
}

TEST_CASE("onnx: packed floats are raw, and packed integers base-128 of the element's width") {
  const auto floats =
      parsed(onnx_text(onnx_tensor_text("f", f32, {2}, proto_bytes(4, std::string(8, 'x')))));
  REQUIRE(floats.has_value());
  CHECK(floats->tensors.at(0).stored == nullptr);
  CHECK(floats->tensors[0].bytes == 8);

  const std::string values = varints_text({1, 300, UINT64_MAX});
  const auto shorts = parsed(onnx_text(onnx_tensor_text("s", i16, {3}, proto_bytes(5, values))));
  REQUIRE(shorts.has_value());
  REQUIRE(shorts->tensors.at(0).stored != nullptr);
  const stored_stream& stream = shorts->tensors[0].stored->pieces.at(0).stored;
  CHECK(stream.stored_codec == codec::varint);
  CHECK(stream.bytes == values.size());
  CHECK(stream.decoded_bytes == 6);
  CHECK(shorts->tensors[0].stored->pieces[0].stride_bytes == shape_type{2});
  const auto code_for = [](std::uint64_t count, std::size_t stored_bytes) {
    return code_of(onnx_text(
        onnx_tensor_text("s", i16, {count}, proto_bytes(5, std::string(stored_bytes, '\1')))));
  };
  CHECK(code_for(4, 3) == errc::wrong_tensor_bytes);
  CHECK_FALSE(code_for(3, 30));
  CHECK(code_for(3, 31) == errc::wrong_tensor_bytes);
  CHECK(code_for(0, 1) == errc::wrong_tensor_bytes);
}

TEST_CASE("onnx: values that are not packed, or in several runs, are gathered") {
  const std::string floats =
      proto_fixed32(4, 0x3F800000) + proto_fixed32(4, 0x40000000) + proto_bytes(4, "abcd");
  const auto found = parsed(onnx_text(onnx_tensor_text("f", f32, {3}, floats)));
  REQUIRE(found.has_value());
  CHECK(dense_bytes(found->tensors.at(0), {}) ==
        number_text(0x3F800000U) + number_text(0x40000000U) + "abcd");
  const std::string integers =
      proto_integer(7, 5) + proto_bytes(7, varints_text({300, 1})) + proto_integer(7, UINT64_MAX);
  const auto longs = parsed(onnx_text(onnx_tensor_text("l", i64, {4}, integers)));
  REQUIRE(longs.has_value());
  CHECK(dense_bytes(longs->tensors.at(0), {}) ==
        number_text(std::uint64_t{5}) + number_text(std::uint64_t{300}) +
            number_text(std::uint64_t{1}) + number_text(UINT64_MAX));
  CHECK(code_of(onnx_text(onnx_tensor_text("l", i64, {5}, integers))) == errc::wrong_tensor_bytes);
  CHECK(code_of(onnx_text(onnx_tensor_text("l", i64, {3}, integers))) == errc::wrong_tensor_bytes);
  const std::string cut = proto_integer(7, 5) + proto_bytes(7, "\x80");
  CHECK(code_of(onnx_text(onnx_tensor_text("l", i64, {2}, cut))) == errc::wrong_tensor_bytes);
}

TEST_CASE("onnx: one kind of data each, in the field of its type") {
  const std::string both = raw("abcd") + proto_bytes(4, "abcd");
  CHECK(code_of(onnx_text(onnx_tensor_text("a", f32, {1}, both))) == errc::malformed_header);
  CHECK(message(onnx_text(onnx_tensor_text("a", f32, {1}, both)))
            .ends_with("the tensor has both raw_data and values in field 4"));
  const std::string two = proto_bytes(4, "abcd") + proto_bytes(5, "a");
  CHECK(code_of(onnx_text(onnx_tensor_text("a", f32, {1}, two))) == errc::malformed_header);
  CHECK(code_of(onnx_text(onnx_tensor_text("a", f32, {1}, proto_bytes(5, "a")))) ==
        errc::malformed_header);
  CHECK(code_of(onnx_text(onnx_tensor_text("a", f32, {1}, raw("abcd") + raw("abcd")))) ==
        errc::malformed_header);
  CHECK(code_of(onnx_text(onnx_tensor_text("a", f32, {1}, proto_integer(2, 1) + raw("abcd")))) ==
        errc::malformed_header);
  CHECK(code_of(onnx_text(onnx_tensor_text("a", f32, {1}, proto_bytes(3, "") + raw("abcd")))) ==
        errc::unsupported_feature);
  CHECK(code_of(onnx_text(onnx_tensor_text("a", 29, {1}, raw("abcd")))) ==
        errc::unsupported_feature);
  CHECK(code_of(onnx_text(onnx_tensor_text("a", 0, {1}, raw("abcd")))) ==
        errc::unsupported_feature);
}

TEST_CASE("onnx: elements of less than a byte are bytes, rounded up") {
  const auto found = parsed(onnx_text(onnx_tensor_text("q", 22, {3}, raw("ab"))));
  REQUIRE(found.has_value());
  const entry& q = found->tensors.at(0);
  CHECK(q.dtype == dtype::u8);
  CHECK(q.shape == shape_type{2});
  CHECK(q.type == "i4");
  CHECK(q.original_shape == shape_type{3});
  CHECK(code_of(onnx_text(onnx_tensor_text("q", 22, {3}, raw("a")))) == errc::wrong_tensor_bytes);
  CHECK(parsed(onnx_text(onnx_tensor_text("q", 25, {5}, raw("ab"))))->tensors.at(0).type == "u2");
}

TEST_CASE("onnx: a scalar of less than a byte has an original shape, so no load converts it") {
  for (const std::uint64_t type : {22U, 25U, 27U}) {
    const auto found = parsed(onnx_text(onnx_tensor_text("q", type, {}, raw("\1"))));
    REQUIRE(found.has_value());
    const entry& q = found->tensors.at(0);
    CHECK(q.shape == shape_type{1});
    CHECK(q.original_shape == shape_type{1});
    CHECK_FALSE(q.type.empty());
  }
}

TEST_CASE("onnx: four elements of six bits are three bytes, and four values") {
  // 1, 2, 3, 63 and 32, the first in the lowest bits.
  const std::string packed = "\x81\x30\xFC\x20";
  const auto stored = parsed(onnx_text(onnx_tensor_text("q", 27, {5}, raw(packed))));
  REQUIRE(stored.has_value());
  CHECK(stored->tensors.at(0).type == "f6_e2m3");
  CHECK(stored->tensors.at(0).shape == shape_type{4});
  const std::string values = proto_bytes(5, "\1\2\3") + proto_integer(5, 63) + proto_integer(5, 32);
  const auto typed = parsed(onnx_text(onnx_tensor_text("q", 28, {5}, values)));
  REQUIRE(typed.has_value());
  CHECK(typed->tensors.at(0).type == "f6_e3m2");
  CHECK(typed->tensors.at(0).original_shape == shape_type{5});
  CHECK(dense_bytes(typed->tensors.at(0), {}) == packed);
  const auto one_run = parsed(onnx_text(onnx_tensor_text("q", 28, {3}, proto_bytes(5, "\1\2\3"))));
  REQUIRE(one_run.has_value());
  CHECK(dense_bytes(one_run->tensors.at(0), {}) == std::string("\x81\x30\0", 3));
  for (const std::uint64_t count : {4U, 6U}) {
    CHECK(code_of(onnx_text(onnx_tensor_text("q", 28, {count}, values))) ==
          errc::wrong_tensor_bytes);
  }
  const auto short_by_one = parsed(onnx_text(onnx_tensor_text("q", 28, {6}, values)));
  REQUIRE_FALSE(short_by_one.has_value());
  CHECK(short_by_one.error().cause().find("needs 6 values, but it has 5") != std::string::npos);
}

TEST_CASE("onnx: sizes are checked at every step, also where a dimension is 0") {
  const auto shaped = [](const shape_type& dims) {
    return code_of(onnx_text(onnx_tensor_text("a", f32, dims, raw("abcd"))));
  };
  const std::uint64_t two_to_62 = std::uint64_t{1} << 62;
  CHECK_FALSE(shaped({1, 1}));
  CHECK(shaped({two_to_62}) == errc::size_overflow);
  CHECK(shaped({two_to_62, 4, 0}) == errc::size_overflow);
  CHECK(shaped({0, two_to_62, 4}) == errc::size_overflow);
  CHECK(shaped({UINT64_MAX}) == errc::malformed_header);  // -1
  CHECK(shaped(shape_type(65, 1)) == errc::malformed_header);
  CHECK_FALSE(shaped(shape_type(64, 1)));
}

TEST_CASE("onnx: external data is a run of a file beside the model") {
  const std::string tensor = onnx_tensor_text(
      "a", f32, {2},
      external(
          {{"location", "./sub//w.bin"}, {"offset", "4096"}, {"length", "8"}, {"checksum", "x"}}));
  const std::string other = onnx_tensor_text("b", f32, {1}, external({{"location", "sub/w.bin"}}));
  const auto found = parsed(onnx_model_text(proto_bytes(5, tensor) + proto_bytes(5, other)));
  REQUIRE(found.has_value());
  CHECK(found->external_files == std::vector<std::string>{"sub/w.bin"});
  REQUIRE(found->tensors.size() == 2);
  const entry& a = found->tensors[1];
  CHECK(a.name == "a");
  REQUIRE(a.stored != nullptr);
  CHECK(a.stored->pieces.at(0).stored.file == 1);
  CHECK(a.stored->pieces[0].stored.offset == 4096);
  CHECK(a.stored->pieces[0].stored.bytes == 8);
  CHECK(a.stored->pieces[0].stored.stored_codec == codec::raw);
}

TEST_CASE("onnx: external data stays in the model's folder and says what it has to") {
  CHECK_FALSE(code_of(at_location("w.bin")));
  CHECK_FALSE(code_of(at_location("a..b/..c/w")));
  for (const char* const out : {"", "/", "/etc/passwd", "..", "../x", "a/../../x", "a/..", ".",
                                "./", "a\\..\\..\\x", "a/../x"}) {
    CAPTURE(out);
    CHECK(code_of(at_location(out)) == errc::path_outside_source);
  }
  CHECK(code_of(at_location(std::string("a\0b", 3))) == errc::path_outside_source);
  const auto with = [](const std::vector<std::pair<std::string, std::string>>& pairs,
                       const std::string& more = {}) {
    return code_of(onnx_text(onnx_tensor_text("a", f32, {2}, external(pairs) + more)));
  };
  CHECK(with({}) == errc::malformed_header);
  CHECK(with({{"location", "w"}, {"location", "v"}}) == errc::malformed_header);
  CHECK(with({{"location", "w"}, {"length", "7"}}) == errc::wrong_tensor_bytes);
  CHECK(with({{"location", "w"}, {"offset", "-1"}}) == errc::malformed_header);
  CHECK(with({{"location", "w"}, {"offset", "1x"}}) == errc::malformed_header);
  CHECK(with({{"location", "w"}, {"offset", ""}}) == errc::malformed_header);
  CHECK(with({{"location", "w"}, {"offset", "18446744073709551616"}}) == errc::malformed_header);
  CHECK(with({{"location", "w"}, {"offset", "18446744073709551615"}}) == errc::size_overflow);
  CHECK(with({{"location", "w"}}, raw("12345678")) == errc::malformed_header);
}

TEST_CASE("onnx: tensors of strings and unnamed initializers are left out with a note") {
  const std::string words = onnx_tensor_text("words", 8, {1}, proto_bytes(6, "text"));
  const std::string unnamed = onnx_tensor_text("", u8, {1}, raw("x"));
  const auto found = parsed(onnx_model_text(proto_bytes(5, words) + proto_bytes(5, unnamed)));
  REQUIRE(found.has_value());
  CHECK(found->tensors.empty());
  REQUIRE(found->notes.size() == 2);
  CHECK(found->notes[0] == "1 tensors of strings are left out, the first is 'words'");
}

TEST_CASE("onnx: constants have their own name, or their output's where that is taken") {
  const auto constant = [](std::string_view output, std::string_view name) {
    return proto_bytes(1,
                       onnx_node_text("Constant", output, "value",
                                      proto_bytes(5, onnx_tensor_text(name, u8, {1}, raw("x")))));
  };
  const std::string weight = proto_bytes(5, onnx_tensor_text("w", u8, {1}, raw("x")));
  const auto found =
      parsed(onnx_model_text(constant("a", "") + constant("b", "value") + constant("c", "value") +
                             constant("d", "w") + constant("a", "") + weight));
  REQUIRE(found.has_value());
  CHECK(names_in(*found) == std::vector<std::string>{"a", "value", "c", "d", "a#2", "w"});
  CHECK(code_of(onnx_model_text(weight + weight)) == errc::duplicate_tensor);
}

TEST_CASE("onnx: numbers that a constant has instead of a tensor are its value") {
  const auto constant = [](std::string_view output, std::string_view attribute,
                           std::string_view fields) {
    return proto_bytes(1, onnx_node_text("Constant", output, attribute, fields));
  };
  const std::string one = proto_fixed32(2, 0x3F800000);
  const std::string minus_two = proto_integer(3, ~std::uint64_t{1});
  const std::string floats = proto_bytes(7, number_text(0x3F800000U) + number_text(0x40000000U));
  const std::string loose = proto_fixed32(7, 0x3F800000) + proto_fixed32(7, 0x40000000);
  const std::string integers = proto_bytes(8, varints_text({1, 300, ~std::uint64_t{0}}));
  const std::string file = onnx_model_text(
      constant("f", "value_float", one) + constant("i", "value_int", minus_two) +
      constant("fs", "value_floats", floats) + constant("ls", "value_floats", loose) +
      constant("is", "value_ints", integers) + constant("s", "value_string", proto_bytes(4, "x")) +
      constant("ss", "value_strings", proto_bytes(9, "x") + proto_bytes(9, "y")) +
      constant("no", "value_floats", ""));
  const auto found = parsed(file);
  REQUIRE(found.has_value());
  CHECK(names_in(*found) == std::vector<std::string>{"no", "f", "i", "fs", "ls", "is"});
  const auto check = [&](std::size_t t, dtype type, const shape_type& shape,
                         const std::string& bytes) {
    CAPTURE(t);
    CHECK(found->tensors[t].dtype == type);
    CHECK(found->tensors[t].shape == shape);
    CHECK(dense_bytes(found->tensors[t], {file}) == bytes);
  };
  const std::string both = number_text(0x3F800000U) + number_text(0x40000000U);
  check(0, dtype::f32, {0}, "");  // A tensor without elements has no place in the file.
  check(1, dtype::f32, {}, number_text(0x3F800000U));
  check(2, dtype::i64, {}, number_text(~std::uint64_t{1}));
  check(3, dtype::f32, {2}, both);
  check(4, dtype::f32, {2}, both);
  check(5, dtype::i64, {3},
        number_text(std::uint64_t{1}) + number_text(std::uint64_t{300}) +
            number_text(~std::uint64_t{0}));
  CHECK(found->notes.size() == 1);  // Strings are left out.
  // In a node of another operator, an attribute with this name is not a value.
  CHECK(parsed(onnx_model_text(proto_bytes(1, onnx_node_text("Other", "o", "value_float", one))))
            ->tensors.empty());
  CHECK(code_of(onnx_model_text(constant("f", "value_float", one + one))) ==
        errc::malformed_header);
  CHECK(code_of(onnx_model_text(constant("f", "value_floats", proto_bytes(7, "abc")))) ==
        errc::wrong_tensor_bytes);
}

TEST_CASE("onnx: graphs inside of nodes have their path before their names") {
  const std::string weight = proto_bytes(5, onnx_tensor_text("w", u8, {1}, raw("x")));
  const auto inside = [](std::string_view output, std::string_view attribute,
                         std::string_view graph) {
    return proto_bytes(1, onnx_node_text("If", output, attribute, proto_bytes(6, graph)));
  };
  const std::string model = onnx_model_text(inside("i", "then_branch", weight) +
                                            inside("i2", "b", inside("j", "c", weight)) + weight);
  CHECK(names_in(*parsed(model)) == std::vector<std::string>{"i/then_branch/w", "i2/b/j/c/w", "w"});
  // Messages can be nested 64 levels deep. Each graph in a node takes three levels.
  std::string deep = weight;
  for (int i = 0; i < 20; ++i) deep = inside("n", "g", deep);
  CHECK_FALSE(code_of(onnx_model_text(deep)));
  CHECK(code_of(onnx_model_text(inside("n", "g", inside("n", "g", deep)))) ==
        errc::malformed_header);
}

TEST_CASE("onnx: a long path before many names is refused before it fills the memory") {
  std::string weights;
  for (int i = 0; i < 2000; ++i) {
    weights += proto_bytes(5, onnx_tensor_text(std::to_string(i), u8, {1}, raw("x")));
  }
  const auto model = [&](std::size_t path_bytes) {
    return onnx_model_text(proto_bytes(
        1, onnx_node_text("If", std::string(path_bytes, 'p'), "g", proto_bytes(6, weights))));
  };
  CHECK_FALSE(code_of(model(1000)));
  CHECK(code_of(model(20'000)) == errc::header_too_large);
}

TEST_CASE("onnx: a sparse tensor is two parts") {
  const auto sparse = [](std::uint64_t count, const shape_type& index_dims) {
    const std::string values = onnx_tensor_text("s", u8, {count}, raw(std::string(count, 'x')));
    std::uint64_t indices = 1;
    for (const std::uint64_t dim : index_dims) indices *= dim;
    const std::string places =
        onnx_tensor_text("", i64, index_dims, raw(std::string(indices * 8, 0)));
    return onnx_model_text(
        proto_bytes(15, proto_bytes(1, values) + proto_bytes(2, places) + proto_bytes(3, "\3\4")));
  };
  const auto found = parsed(sparse(2, {2, 2}));
  REQUIRE(found.has_value());
  CHECK(names_in(*found) == std::vector<std::string>{"s/values", "s/indices"});
  CHECK(found->composites.at(0).shape == shape_type{3, 4});
  CHECK_FALSE(code_of(sparse(2, {2})));
  CHECK(code_of(sparse(2, {3})) == errc::wrong_tensor_bytes);
  CHECK(code_of(sparse(2, {2, 3})) == errc::wrong_tensor_bytes);
  CHECK(code_of(sparse(2, {2, 2, 1})) == errc::wrong_tensor_bytes);
  CHECK(code_of(sparse(1, {})) == errc::wrong_tensor_bytes);
}

TEST_CASE("onnx: what is no protocol buffer, or not of the schema, is refused") {
  const std::string file = onnx_text(onnx_tensor_text("w", f32, {1}, raw("abcd")));
  for (std::size_t size = 0; size < file.size(); ++size) {
    CAPTURE(size);
    CHECK(code_of(file.substr(0, size)));
  }
  CHECK(message("") == "byte 0: the model has no graph");
  CHECK(code_of(onnx_model_text("") + proto_bytes(7, "")) == errc::malformed_header);
  CHECK(code_of(proto_integer(7, 1)) == errc::malformed_header);
  CHECK(code_of(proto_key(1, 3)) == errc::malformed_header);  // A group.
  CHECK(code_of(proto_key(1, 7)) == errc::malformed_header);
  CHECK(code_of(proto_key(0, 0)) == errc::malformed_header);
  CHECK(code_of(proto_key(1, 0) + std::string(11, '\xFF')) == errc::malformed_header);
  CHECK(code_of(proto_key(7, 2) + varint_text(UINT64_MAX)) == errc::header_outside_file);
  // The tensor would end after its graph, but inside the file.
  const std::string lying = proto_key(5, 2) + varint_text(100);
  CHECK(code_of(onnx_model_text(lying) + proto_bytes(2, std::string(200, 'x'))) ==
        errc::header_outside_file);
  CHECK(code_of(onnx_text(onnx_tensor_text("\xFF", u8, {1}, raw("x")))) == errc::header_not_utf8);
}

TEST_CASE("onnx: of a model with large tensors little is read, and metadata is kept") {
  const std::string big(8 << 20, 'x');
  const std::string file = onnx_text(onnx_tensor_text("w", u8, {big.size()}, raw(big))) +
                           proto_bytes(14, proto_bytes(1, "author") + proto_bytes(2, "me\xFF"));
  counting_input in(file);
  const auto found = parse_onnx(in, strictness::strict);
  REQUIRE(found.has_value());
  CHECK(in.bytes_read <= 3 * 8192);
  CHECK(found->metadata == attributes{{"author", "me\xEF\xBF\xBD"}});
}

TEST_CASE("onnx: what the package onnx wrote is what is found") {
  for (const char* const name : {"types", "nested", "external"}) {
    CAPTURE(name);
    const std::string path = data_path(std::string("onnx/") + name + ".onnx");
    std::vector<std::string> files = {content_of(path)};
    const auto found = parsed(files[0]);
    REQUIRE(found.has_value());
    for (const std::string& beside : found->external_files) {
      files.push_back(content_of(data_path("onnx/" + beside)));
    }
    check_expected(*found, path, files);
    CHECK(found->metadata == attributes{{"author", "test"}, {"kind", "all"}});
  }
}
