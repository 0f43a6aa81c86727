// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "zt_text.hpp"

using namespace ringload;
using namespace ringload::testing;
using namespace ringload::testing::zt_files;

TEST_CASE("zt: what a later version adds is passed over, and null is as good as nothing") {
  const std::string data =
      zt_component_text("u8", 64, 1,
                        {{"type", "\xF6"},
                         {"digest", "\xF6"},
                         {"encoding", "\xF6"},
                         {"new", "\xF7"},
                         {"other", cbor_map({{"a", cbor_array({cbor_text("b"), "\x20"})}})}});
  const std::string whole =
      zt_object_text({1}, "dense", {{"data", data}},
                     {{"attributes", "\xF6"}, {"more", std::string("\xF9\x3C\x00", 3)}});
  CHECK_FALSE(code_of(with({{"t", whole}}, "1.3.0")));
}

TEST_CASE("zt: fields may come in any order, tagged, and of unknown length") {
  const std::string data = "\xBF" + cbor_text("length") + "\xC2\x41\x04" + cbor_text("offset") +
                           cbor_number(64) + cbor_text("dtype") +
                           "\x7F\x61"
                           "f\x62"
                           "32\xFF\xFF";
  const std::string object = cbor_map({{"components", cbor_map({{"data", data}})},
                                       {"shape", "\x9F\x01\xFF"},
                                       {"format", cbor_text("dense")}});
  const std::string manifest =
      cbor_map({{"objects", cbor_map({{"t", object}})}, {"version", "\xC1" + cbor_text("1.2.0")}});
  const auto found = parsed(zt_text(manifest, std::string(64, '\1')));
  REQUIRE(found.has_value());
  CHECK(found->tensors.at(0).bytes == 4);
}

TEST_CASE("zt: attributes of the file are its metadata") {
  const std::string manifest =
      cbor_map({{"version", cbor_text("1.2.0")},
                {"attributes", cbor_map({{"text", cbor_text("x\"y")},
                                         {"half", std::string("\xF9\x3E\x00", 3)},
                                         {"negative", "\x24"},
                                         {"lowest", "\x3B" + std::string(8, '\xFF')},
                                         {"bytes", std::string("\x42\x01\xAB")},
                                         {"map", cbor_map({{"k", cbor_text("v\n")}})},
                                         {"keyed", "\xA1\x01\x02"},
                                         {"infinite", std::string("\xF9\x7C\x00", 3)}})},
                {"objects", cbor_map({})}});
  const auto found = parsed(zt_text(manifest));
  REQUIRE(found.has_value());
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"text", "x\"y"},       {"half", "1.5"},
      {"negative", "-5"},     {"lowest", "-18446744073709551616"},
      {"bytes", "\"01ab\""},  {"map", "{\"k\":\"v\\n\"}"},
      {"keyed", "{\"1\":2}"}, {"infinite", "\"Infinity\""}};
  REQUIRE(found->metadata.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(found->metadata[i].first == expected[i].first);
    CHECK(found->metadata[i].second.text() == expected[i].second);
    CHECK(found->metadata[i].second.is_text() == (i == 0));
  }
  // The values keep their encoding.
  CHECK(found->metadata[0].second.encoded() == cbor_text("x\"y"));
  CHECK(found->metadata[1].second.encoded() == std::string("\xF9\x3E\x00", 3));
  CHECK(found->metadata[4].second.encoded() == "\x42\x01\xAB");
  CHECK(found->metadata[6].second.encoded() == "\xA1\x01\x02");
}

TEST_CASE("zt: both magic numbers, the manifest's size and its place are checked") {
  const std::string file = zt_text(zt_index_text({}), std::string(64, '\1'));
  REQUIRE_FALSE(code_of(file));
  for (std::size_t size = 0; size < file.size(); ++size) {
    CAPTURE(size);
    CHECK(code_of(file.substr(0, size)) ==
          (size < 24 ? errc::header_too_small : errc::malformed_header));
  }
  std::string other = file;
  other[0] = 'Y';
  CHECK(code_of(other) == errc::malformed_header);
  const auto sized = [](std::uint64_t bytes) {
    return "ZTEN1000" + zt_index_text({}) + number_text(bytes) + "ZTEN1000";
  };
  REQUIRE_FALSE(code_of(sized(24)));
  CHECK(code_of(sized(25)) == errc::header_outside_file);
  CHECK(code_of(sized(1'073'741'824)) == errc::header_outside_file);
  CHECK(code_of(sized(1'073'741'825)) == errc::header_too_large);
  CHECK(code_of(sized(UINT64_MAX)) == errc::header_too_large);
  CHECK(code_of(sized(23)) == errc::malformed_header);
  CHECK(code_of(sized(0)) == errc::header_outside_file);
}

TEST_CASE("zt: a manifest that is no CBOR, or not of the schema, is refused at every byte") {
  const std::string manifest = zt_index_text(
      {{"t", zt_object_text({1}, "dense", {{"data", zt_component_text("u8", 64, 1)}})}});
  for (std::size_t size = 0; size < manifest.size(); ++size) {
    CAPTURE(size);
    CHECK(code_of(zt_text(manifest.substr(0, size), std::string(64, '\1'))));
  }
  const auto root = [](const std::string& value) { return code_of(zt_text(value)); };
  CHECK(root(cbor_map({})) == errc::malformed_header);
  CHECK(root(cbor_map({{"version", cbor_text("1.2.0")}})) == errc::malformed_header);
  CHECK(root(cbor_map({{"objects", cbor_map({})}})) == errc::malformed_header);
  CHECK(root(cbor_array({})) == errc::malformed_header);
  CHECK(root("\x1C") == errc::malformed_header);
  CHECK(root("\xFF") == errc::malformed_header);
  CHECK(root(cbor_map({{"version", cbor_number(1)}, {"objects", cbor_map({})}})) ==
        errc::malformed_header);
  CHECK(root(cbor_map({{"version", "\x61\xFF"}, {"objects", cbor_map({})}})) ==
        errc::header_not_utf8);
  // Deeply nested, and with huge stated lengths.
  const auto unknown = [&](const std::string& value) {
    return root(cbor_map({{"x", value}, {"version", cbor_text("1.2")}, {"objects", cbor_map({})}}));
  };
  CHECK_FALSE(unknown(std::string(255, '\x81') + "\x01"));
  CHECK(unknown(std::string(256, '\x81') + "\x01") == errc::malformed_header);
  CHECK(unknown(std::string(100'000, '\x9F')) == errc::malformed_header);
  CHECK(unknown(std::string(100'000, '\xC1') + "\x01") == errc::malformed_header);
  CHECK(unknown("\x9B" + std::string(8, '\xFF')));
  CHECK(unknown("\xBB" + std::string(8, '\xFF')) == errc::malformed_header);
  CHECK(unknown("\x7B" + std::string(8, '\xFF')) == errc::header_outside_file);
  // The JSON text of a map as a key would double at each level.
  CHECK(root(cbor_map({{"attributes", cbor_map({{"a", std::string(60, '\xA1') + "\1\1"}})}})) ==
        errc::malformed_header);
  const std::string deep = cbor_map({{"a", std::string(300, '\x81') + "\x01"}});
  CHECK(root(cbor_map({{"attributes", deep}})) == errc::malformed_header);
}

TEST_CASE("zt: versions 1.0 and 2 are refused by their names") {
  const std::string old = cbor_map(
      {{"version", cbor_text("1.0.0")}, {"generator", cbor_text("x")}, {"tensors", cbor_map({})}});
  CHECK(message(zt_text(old))
            .ends_with("this is a .zt file of version 1.0, expected 0.1, 1.1 or 1.2"));
  CHECK(code_of(zt_text(zt_index_text({}, "2.0.0"))) == errc::unsupported_feature);
  const std::string two = std::string(zt_2_magic) + std::string(64, '\0');
  CHECK(message(two) == "byte 0: this is a .zt file of version 2, expected 0.1, 1.1 or 1.2");
}

TEST_CASE("zt: version 0.1, with big-endian data, checksums and layouts that are left out") {
  const auto item = [](std::string_view name, std::uint64_t offset, std::uint64_t size,
                       std::string_view type, const cbor_pairs& more) {
    cbor_pairs all = {{"name", cbor_text(name)},
                      {"offset", cbor_number(offset)},
                      {"size", cbor_number(size)},
                      {"dtype", cbor_text(type)}};
    all.insert(all.end(), more.begin(), more.end());
    return cbor_map(all);
  };
  const std::pair<std::string, std::string> shape = {"shape", cbor_numbers({2})};
  const auto file = [](const std::vector<std::string>& items) {
    const std::string index = cbor_array(items);
    return "ZTEN0001" + std::string(56 + 192, '\0') + index +
           number_text(std::uint64_t{index.size()});
  };
  const auto found =
      parsed(file({item("a", 64, 8, "float32",
                        {shape,
                         {"layout", cbor_text("dense")},
                         {"encoding", cbor_text("raw")},
                         {"checksum", cbor_text("crc32c:0x01020304")},
                         {"x", "\x01"}}),
                   item("b", 128, 4, "int16", {shape, {"data_endianness", cbor_text("big")}}),
                   item("c", 192, 9, "float64", {shape, {"encoding", cbor_text("zstd")}}),
                   item("d", 192, 9, "float64", {shape, {"layout", cbor_text("sparsecoo")}})}));
  REQUIRE(found.has_value());
  REQUIRE(found->tensors.size() == 3);
  CHECK(found->tensors[0].digest != nullptr);
  CHECK(found->tensors[0].stored == nullptr);
  CHECK(found->tensors[1].stored->swap_bytes == 2);
  CHECK(found->tensors[2].stored->pieces.at(0).stored.decoded_bytes == 16);
  CHECK(found->notes.size() == 1);
  CHECK(code_of(file({item("a", 64, 9, "float32", {shape})})) == errc::wrong_tensor_bytes);
  CHECK(code_of(file({item("a", 320, 8, "float32", {shape})})) == errc::extent_outside_file);
  CHECK(code_of(file({item("a", 64, 8, "f32", {shape})})) == errc::unsupported_feature);
  CHECK(code_of(file({item("a", 64, 8, "float32", {shape, {"encoding", cbor_text("lz4")}})})) ==
        errc::unsupported_feature);
  CHECK(code_of(file({item("a", 64, 8, "float32", {})})) == errc::malformed_header);
  CHECK(code_of(file({cbor_map({})})) == errc::malformed_header);
}

TEST_CASE("zt: an endless manifest in a sparse file is given up at its first byte") {
  class endless final : public input {
   public:
    std::uint64_t bytes() const noexcept override { return std::uint64_t{1} << 40; }
    result<std::span<const std::byte>> read(std::uint64_t offset, std::size_t count) override {
      window_.assign(count, '\0');
      if (offset == 0) window_.replace(0, 8, "ZTEN1000");
      if (offset + count == bytes()) window_.replace(count - 8, 8, "ZTEN1000");
      if (offset == bytes() - 16) window_.replace(0, 8, number_text(std::uint64_t{1} << 30));
      return bytes_of(window_);
    }

   private:
    std::string window_;
  };
  endless in;
  const auto answer = parse_zt(in, strictness::strict);
  REQUIRE_FALSE(answer.has_value());
  CHECK(answer.error().code == errc::malformed_header);
}
