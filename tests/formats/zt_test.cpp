// SPDX-License-Identifier: Apache-2.0
#include "formats/zt/zt.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "expected_tensors.hpp"
#include "zt_text.hpp"

using namespace ringload;
using namespace ringload::testing;
using namespace ringload::testing::zt_files;

namespace {

using shape_type = std::vector<std::uint64_t>;

std::string unhexed(std::string_view digits) {
  std::string out;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    if (digits[i] == ' ') ++i;
    out += static_cast<char>(std::stoi(std::string(digits.substr(i, 2)), nullptr, 16));
  }
  return out;
}

const entry* tensor(const file_entries& in, std::string_view name) {
  const auto found = std::ranges::find(in.tensors, name, &entry::name);
  return found == in.tensors.end() ? nullptr : &*found;
}

const cbor_pairs zstd_of_16 = {{"encoding", cbor_text("zstd")},
                               {"uncompressed_length", cbor_number(16)}};

}  // namespace

TEST_CASE("zt: a file without tensors has 48 bytes") {
  const std::string file = unhexed(
      "5a54454e31303030a26776657273696f6e65312e322e30676f626a65637473a0"
      "18000000000000005a54454e31303030");
  REQUIRE(file.size() == 48);
  CHECK(file == zt_text(zt_index_text({})));
  const auto found = parsed(file);
  REQUIRE(found.has_value());
  CHECK(found->tensors.empty());
}

TEST_CASE("zt: one raw tensor, with and without a digest") {
  const std::string blob = unhexed("0000803f000000400000404000008040");
  const auto file = [&](const cbor_pairs& digest) {
    const std::string object =
        cbor_map({{"shape", cbor_numbers({2, 2})},
                  {"format", cbor_text("dense")},
                  {"components", cbor_map({{"data", zt_component_text("f32", 64, 16, digest)}})}});
    return zt_text(zt_index_text({{"t", object}}), blob);
  };
  const std::string plain = file({});
  CHECK(plain.size() == 190);
  CHECK(plain.substr(80, 94) ==
        unhexed("a26776657273696f6e65312e322e30676f626a65637473a16174a365736861706582020266666f726d"
                "61746564656e73656a636f6d706f6e656e7473a16464617461a365647479706563663332666f666673"
                "65741840666c656e67746810"));
  const auto found = parsed(plain);
  REQUIRE(found.has_value());
  const entry& t = found->tensors.at(0);
  CHECK(t.name == "t");
  CHECK(t.dtype == dtype::f32);
  CHECK(t.shape == shape_type{2, 2});
  CHECK(t.offset == 64);
  CHECK(t.bytes == 16);
  CHECK(t.stored == nullptr);
  CHECK(t.digest == nullptr);

  const std::string crc = file({{"digest", cbor_text("crc32c:0x9EBA690A")}});
  CHECK(crc.size() == 215);
  const auto checked = parsed(crc);
  REQUIRE(checked.has_value());
  REQUIRE(checked->tensors[0].digest != nullptr);
  CHECK(checked->tensors[0].digest->algorithm == digest_algorithm::crc32c);
  CHECK(checked->tensors[0].stored == nullptr);
  CHECK(std::string(reinterpret_cast<const char*>(checked->tensors[0].digest->bytes.data()), 4) ==
        number_text(crc32c(bytes_of(blob)), std::endian::big));

  const std::string sha = file(
      {{"digest",
        cbor_text("sha256:ad73b9acd6e4a74b2f5bb5386658ce3bb146cd040a1867646ab3b973fb6632b1")}});
  CHECK(sha.size() == 270);
  const auto hashed = parsed(sha);
  REQUIRE(hashed.has_value());
  CHECK(hashed->tensors[0].digest->algorithm == digest_algorithm::sha256);
  CHECK(hashed->tensors[0].digest->bytes.size() == 32);
}

TEST_CASE("zt: digests are read in either case; a wrong one is refused, an unknown one noted") {
  const auto file = [](std::string_view digest) {
    return dense({16}, zt_component_text("u8", 64, 16, {{"digest", cbor_text(digest)}}));
  };
  CHECK(parsed(file("crc32c:0Xabcdef09"))->tensors[0].digest != nullptr);
  CHECK(parsed(file("sha256:" + std::string(64, 'A')))->tensors[0].digest != nullptr);
  CHECK(code_of(file("crc32c:0x1234567")) == errc::malformed_header);
  CHECK(code_of(file("crc32c:0x123456789")) == errc::malformed_header);
  CHECK(code_of(file("crc32c:0x1234567g")) == errc::malformed_header);
  CHECK(code_of(file("sha256:" + std::string(63, 'a'))) == errc::malformed_header);
  for (const char* unknown : {"crc32c:12345678", "xxh3:00", "nothing"}) {
    const auto found = parsed(file(unknown));
    REQUIRE(found.has_value());
    CHECK(found->tensors[0].digest == nullptr);
    CHECK(found->notes.size() == 1);
  }
}

TEST_CASE("zt: a compressed tensor is one zstd stream of the size that its shape has") {
  const auto found = parsed(dense({2, 2}, zt_component_text("f32", 64, 13, zstd_of_16)));
  REQUIRE(found.has_value());
  const entry& t = found->tensors[0];
  CHECK(t.bytes == 16);
  REQUIRE(t.stored != nullptr);
  const piece& whole = t.stored->pieces.at(0);
  CHECK(whole.stored.stored_codec == codec::zstd);
  CHECK(whole.stored.offset == 64);
  CHECK(whole.stored.bytes == 13);
  CHECK(whole.stored.decoded_bytes == 16);
  CHECK(whole.stride_bytes == shape_type{8, 4});
  // A decoded length that no stream of this length can have is refused before memory is allocated.
  const auto bomb = [](std::uint64_t decoded) {
    return dense({decoded}, zt_component_text("u8", 64, 16,
                                              {{"encoding", cbor_text("zstd")},
                                               {"uncompressed_length", cbor_number(decoded)}}));
  };
  CHECK_FALSE(code_of(bomb(4 * 131'072)));
  CHECK(code_of(bomb(5 * 131'072)) == errc::wrong_tensor_bytes);
  CHECK(code_of(bomb(std::uint64_t{1} << 62)) == errc::wrong_tensor_bytes);
  // An empty stream decodes to no bytes, not to zeros.
  CHECK(code_of(dense({2, 2}, zt_component_text("f32", 64, 0, zstd_of_16))) ==
        errc::wrong_tensor_bytes);
  // The decoded length is required, except in version 1.1, which does not have it.
  const std::string without = zt_component_text("f32", 64, 13, {{"encoding", cbor_text("zstd")}});
  CHECK(code_of(dense({2, 2}, without)) == errc::malformed_header);
  CHECK(parsed(dense({2, 2}, without, "1.1.0"))->tensors.at(0).bytes == 16);
  CHECK(code_of(dense({2, 3}, zt_component_text("f32", 64, 13, zstd_of_16))) ==
        errc::wrong_tensor_bytes);
  const cbor_pairs untrue = {{"uncompressed_length", cbor_number(17)}};
  CHECK(code_of(dense({16}, zt_component_text("u8", 64, 16, untrue))) == errc::wrong_tensor_bytes);
}

TEST_CASE("zt: every dtype, scalars and empty tensors; no other dtype") {
  const std::vector<std::pair<std::string, dtype>> all = {
      {"f64", dtype::f64},     {"f32", dtype::f32}, {"f16", dtype::f16}, {"bf16", dtype::bf16},
      {"i64", dtype::i64},     {"i32", dtype::i32}, {"i16", dtype::i16}, {"i8", dtype::i8},
      {"u64", dtype::u64},     {"u32", dtype::u32}, {"u16", dtype::u16}, {"u8", dtype::u8},
      {"bool", dtype::boolean}};
  for (const auto& [name, type] : all) {
    const std::uint64_t width = bits(type) / 8;
    const auto found = parsed(dense({3}, zt_component_text(name, 64, 3 * width)));
    REQUIRE(found.has_value());
    CHECK(found->tensors[0].dtype == type);
    CHECK(parsed(dense({}, zt_component_text(name, 64, width)))->tensors.at(0).shape.empty());
    CHECK(parsed(dense({2, 0}, zt_component_text(name, 64, 0)))->tensors.at(0).bytes == 0);
    CHECK(code_of(dense({3}, zt_component_text(name, 64, 3 * width + 1))) ==
          errc::wrong_tensor_bytes);
  }
  CHECK(code_of(dense({1}, zt_component_text("f8", 64, 1))) == errc::unsupported_feature);
  CHECK(code_of(dense({1}, zt_component_text("F32", 64, 4))) == errc::unsupported_feature);
}

TEST_CASE("zt: logical types have a dtype where there is one, and stay named") {
  const auto typed = [](std::string_view stored, std::string_view type, std::uint64_t length) {
    return dense({4}, zt_component_text(stored, 64, length, {{"type", cbor_text(type)}}));
  };
  const auto f8 = parsed(typed("u8", "f8_e4m3fn", 4));
  CHECK(f8->tensors.at(0).dtype == dtype::f8_e4m3fn);
  CHECK(f8->tensors.at(0).type == "f8_e4m3fn");
  CHECK(parsed(typed("u8", "f8_e5m2fnuz", 4))->tensors.at(0).dtype == dtype::f8_e5m2fnuz);
  CHECK(parsed(typed("f32", "complex64", 32))->tensors.at(0).dtype == dtype::c64);
  CHECK(parsed(typed("f64", "complex128", 64))->tensors.at(0).dtype == dtype::c128);
  CHECK(parsed(typed("f32", "f32", 16))->tensors.at(0).type.empty());
  CHECK(code_of(typed("f32", "complex64", 16)) == errc::wrong_tensor_bytes);
  CHECK(code_of(typed("f32", "f8_e5m2", 16)) == errc::malformed_header);
  // If the type is unknown, the number of elements may differ from the shape.
  const auto same = parsed(typed("u8", "posit8", 4));
  CHECK(same->tensors.at(0).shape == shape_type{4});
  CHECK(same->tensors.at(0).type == "posit8");
  const auto packed = parsed(typed("u8", "i4", 2));
  CHECK(packed->tensors.at(0).shape == shape_type{2});
  CHECK(packed->tensors.at(0).original_shape == shape_type{4});
}

TEST_CASE("zt: offsets are multiples of 64 in front of the manifest, and objects may share them") {
  const auto placed = [](std::uint64_t offset, std::uint64_t length) {
    return dense({length}, zt_component_text("u8", offset, length));
  };
  CHECK_FALSE(code_of(placed(64, 256)));
  CHECK_FALSE(code_of(placed(320, 0)));
  CHECK(code_of(placed(0, 1)) == errc::invalid_offsets);
  CHECK(code_of(placed(8, 1)) == errc::invalid_offsets);
  CHECK(code_of(placed(65, 1)) == errc::invalid_offsets);
  CHECK(code_of(placed(64, 257)) == errc::extent_outside_file);
  CHECK(code_of(placed(320, 1)) == errc::extent_outside_file);
  CHECK(code_of(placed(UINT64_MAX - 63, 64)) == errc::extent_outside_file);
  CHECK(code_of(placed(64, UINT64_MAX)) == errc::extent_outside_file);
  CHECK(code_of(dense({std::uint64_t{1} << 63, 2}, zt_component_text("u8", 64, 0))) ==
        errc::size_overflow);
  CHECK(code_of(dense({std::uint64_t{1} << 63, 2, 0}, zt_component_text("u8", 64, 0))) ==
        errc::size_overflow);
  const std::string one = zt_component_text("u8", 128, 4);
  const auto shared = parsed(
      with({{"b", zt_object_text({4}, "dense", {{"data", one}})},
            {"a", zt_object_text({2, 2}, "dense", {{"data", one}})},
            {"c", zt_object_text({1}, "dense", {{"data", zt_component_text("u8", 64, 1)}})}}));
  REQUIRE(shared.has_value());
  CHECK(shared->tensors[0].name == "c");
  CHECK(shared->tensors[1].offset == shared->tensors[2].offset);
}

TEST_CASE("zt: a CSR object is three tensors and says what they are") {
  const auto csr = [](const shape_type& shape, std::uint64_t values, std::uint64_t indices,
                      std::uint64_t indptr, std::string_view index_type = "u64") {
    return with({{"s", zt_object_text(shape, "sparse_csr",
                                      {{"values", zt_component_text("f32", 64, values * 4)},
                                       {"indices", zt_component_text(index_type, 128, indices * 8)},
                                       {"indptr", zt_component_text("u64", 192, indptr * 8)}},
                                      {{"attributes", cbor_map({{"why", cbor_text("test")}})}})}});
  };
  const auto found = parsed(csr({2, 10}, 5, 5, 3));
  REQUIRE(found.has_value());
  REQUIRE(found->composites.size() == 1);
  const composite& s = found->composites[0];
  CHECK(s.name == "s");
  CHECK(s.layout == "sparse_csr");
  CHECK(s.shape == shape_type{2, 10});
  CHECK(s.parts == std::vector<std::string>{"values", "indices", "indptr"});
  CHECK(s.attributes == attributes{{"why", "test"}});
  REQUIRE(found->tensors.size() == 3);
  CHECK(tensor(*found, "s/values")->shape == shape_type{5});
  CHECK(tensor(*found, "s/indices")->dtype == dtype::u64);
  CHECK(tensor(*found, "s/indptr")->shape == shape_type{3});
  CHECK(code_of(csr({2, 10}, 5, 4, 3)) == errc::wrong_tensor_bytes);
  CHECK(code_of(csr({2, 10}, 5, 5, 2)) == errc::wrong_tensor_bytes);
  CHECK(code_of(csr({UINT64_MAX, 10}, 5, 5, 0)) == errc::wrong_tensor_bytes);
  CHECK(code_of(csr({20}, 5, 5, 3)) == errc::malformed_header);
  CHECK(code_of(csr({2, 10}, 5, 5, 3, "f64")) == errc::malformed_header);
  // Violates the specification, but zTensor writes it for SciPy. Accepted with a note.
  const auto others = parsed(csr({2, 10}, 5, 5, 3, "i64"));
  REQUIRE(others.has_value());
  CHECK(tensor(*others, "s/indices")->dtype == dtype::i64);
  CHECK(others->unreadable.empty());
  CHECK(others->notes.size() == 1);
  const std::string lacking =
      with({{"s", zt_object_text({2, 10}, "sparse_csr",
                                 {{"values", zt_component_text("f32", 64, 20)}})}});
  CHECK(message(lacking).ends_with("a sparse_csr object must have the component 'indices'"));
}

TEST_CASE("zt: a COO object has its coordinates dimension by dimension") {
  const auto coo = [](const shape_type& shape, std::uint64_t values, std::uint64_t coords) {
    return with({{"s", zt_object_text(shape, "sparse_coo",
                                      {{"values", zt_component_text("f32", 64, values * 4)},
                                       {"coords", zt_component_text("u64", 128, coords * 8)}})}});
  };
  const auto found = parsed(coo({2, 10}, 3, 6));
  REQUIRE(found.has_value());
  CHECK(tensor(*found, "s/coords")->shape == shape_type{2, 3});
  CHECK(found->composites.at(0).layout == "sparse_coo");
  CHECK(code_of(coo({2, 10}, 3, 5)) == errc::wrong_tensor_bytes);
  CHECK(code_of(coo({}, 3, 1)) == errc::wrong_tensor_bytes);
  CHECK_FALSE(code_of(coo({2, 10}, 0, 0)));
}

TEST_CASE("zt: any other object is a group of flat parts, with its attributes") {
  const std::string file = with(
      {{"w", zt_object_text(
                 {4, 8}, "quantized_group",
                 {{"packed_weight", zt_component_text("i32", 64, 16)},
                  {"scales", zt_component_text("f16", 128, 8)},
                  {"zeros", zt_component_text("u8", 192, 9, zstd_of_16)}},
                 {{"attributes", cbor_map({{"bits", cbor_number(4)},
                                           {"packing", cbor_text("8_per_i32")},
                                           {"more", cbor_array({cbor_number(1), "\xF5"})}})}})}});
  const auto found = parsed(file);
  REQUIRE(found.has_value());
  const composite& w = found->composites.at(0);
  CHECK(w.layout == "quantized_group");
  CHECK(w.attributes ==
        attributes{{"bits", 4}, {"packing", "8_per_i32"}, {"more", attribute::json("[1,true]")}});
  CHECK(tensor(*found, "w/packed_weight")->shape == shape_type{4});
  CHECK(tensor(*found, "w/zeros")->shape == shape_type{16});
  CHECK(tensor(*found, "w/zeros")->stored != nullptr);
  const std::string odd =
      with({{"w", zt_object_text({4}, "x", {{"a", zt_component_text("i32", 64, 15)}})}});
  CHECK(code_of(odd) == errc::wrong_tensor_bytes);
}

TEST_CASE("zt: names stand once, also against the parts of objects") {
  const std::string object =
      zt_object_text({1}, "dense", {{"data", zt_component_text("u8", 64, 1)}});
  CHECK(code_of(with({{"t", object}, {"t", object}})) == errc::duplicate_tensor);
  const auto both =
      parsed(with({{"g", zt_object_text({1}, "x", {{"p", zt_component_text("u8", 128, 2)}})},
                   {"g//p", object},
                   {"g/p", object}}));
  REQUIRE(both.has_value());
  CHECK(both->composites.at(0).separator == "///");
  CHECK(tensor(*both, "g///p")->bytes == 2);
  CHECK(tensor(*both, "g/p")->bytes == 1);
  CHECK(both->notes.size() == 1);
  const std::string component = zt_component_text("u8", 64, 1);
  CHECK(code_of(with({{"t", zt_object_text({1}, "x", {{"p", component}, {"p", component}})}})) ==
        errc::duplicate_tensor);
  const std::string twice = zt_component_text("u8", 64, 1, {{"offset", cbor_number(64)}});
  CHECK(code_of(dense({1}, twice)) == errc::malformed_header);
  // Also after many fields that the reader does not know.
  std::vector<std::pair<std::string, std::string>> fields;
  for (char key = 'a'; key <= 't'; ++key) fields.emplace_back(std::string(1, key), "\x01");
  CHECK_FALSE(code_of(dense({1}, zt_component_text("u8", 64, 1, fields))));
  for (const char* digest : {"sha256:aa", "crc32c:00"}) {
    fields.emplace_back("digest", cbor_text(digest));
  }
  CHECK(code_of(dense({1}, zt_component_text("u8", 64, 1, fields))) == errc::malformed_header);
  CHECK_FALSE(code_of(with({{"", object}})));
}

TEST_CASE("zt: a long name before many components is refused before it fills the memory") {
  const auto object = [](std::size_t name_bytes) {
    cbor_pairs parts;
    for (int i = 0; i < 500; ++i)
      parts.emplace_back(std::to_string(i), zt_component_text("u8", 64, 1));
    return with({{std::string(name_bytes, 'n'), zt_object_text({1}, "x", parts)}});
  };
  CHECK_FALSE(code_of(object(1000)));
  CHECK(code_of(object(50'000)) == errc::header_too_large);
}

TEST_CASE("zt: an object that cannot be read leaves the others readable") {
  const std::string good = zt_object_text({1}, "dense", {{"data", zt_component_text("u8", 64, 1)}});
  const auto object = [](const std::string& component) {
    return zt_object_text({1}, "dense", {{"data", component}});
  };
  const std::pair<std::string, errc> all[] = {
      {object(zt_component_text("f7", 64, 1)), errc::unsupported_feature},
      {object(zt_component_text("u8", 64, 1, {{"encoding", cbor_text("lz9")}})),
       errc::unsupported_feature},
      {object(zt_component_text("u8", 64, 2)), errc::wrong_tensor_bytes},
      {object(zt_component_text("u8", 65, 1)), errc::invalid_offsets},
      {zt_object_text({1}, "sparse_coo", {{"values", zt_component_text("u8", 64, 1)}}),
       errc::malformed_header}};
  for (const auto& [bad, code] : all) {
    const std::string file = with({{"a", good}, {"bad", bad}, {"z", good}});
    const auto found = parsed(file);
    REQUIRE(found.has_value());
    CHECK(found->tensors.size() == 2);
    REQUIRE(found->unreadable.size() == 1);
    CHECK(found->unreadable[0].name == "bad");
    CHECK(found->unreadable[0].cause.code == code);
    CHECK_FALSE(found->unreadable[0].is_left_out);
    CHECK(found->notes.size() == 1);
    memory_input in(bytes_of(file));
    CHECK(parse_zt(in, strictness::reference)->unreadable.at(0).is_left_out);
  }
}

TEST_CASE("zt: the version decides, also if the manifest has the objects first") {
  const std::string component = zt_component_text("f32", 64, 13, {{"encoding", cbor_text("zstd")}});
  const std::string objects =
      cbor_map({{"t", zt_object_text({2, 2}, "dense", {{"data", component}})}});
  const auto file = [&](std::string_view version) {
    return zt_text(cbor_map({{"objects", objects}, {"version", cbor_text(version)}}),
                   std::string(256, '\1'));
  };
  CHECK(parsed(file("1.1.0"))->tensors.at(0).bytes == 16);
  CHECK(refusal(file("1.2.0")));
  CHECK(refusal(file("2.0.0"))->code == errc::unsupported_feature);
}

TEST_CASE("zt: 1.1 says nothing of the length of parts, so it is counted") {
  // A zstd frame with one raw block, without a content size and without a checksum.
  const auto frame = [](const std::string& bytes) {
    const auto block = static_cast<std::uint32_t>(bytes.size() << 3U | 1U);
    std::string out = {'\x28', '\xB5', '\x2F', '\xFD', '\x00', '\x58'};
    for (const unsigned shift : {0U, 8U, 16U}) out += static_cast<char>(block >> shift & 0xFFU);
    return out + bytes;
  };
  std::string blobs;
  const auto packed = [&](std::string_view type, const std::string& bytes) {
    const std::string stored = frame(bytes);
    blobs.resize((blobs.size() + 63) / 64 * 64);
    const std::uint64_t offset = 64 + blobs.size();
    blobs += stored;
    return zt_component_text(type, offset, stored.size(), {{"encoding", cbor_text("zstd")}});
  };
  const std::string values = packed("f32", std::string(12, '\2'));
  const std::string coords = packed("u64", std::string(48, '\0'));
  const std::string broken = packed("u64", std::string(47, '\0'));
  const auto file = [&](const std::string& second) {
    return zt_text(
        zt_index_text(
            {{"s", zt_object_text({2, 3}, "sparse_coo", {{"values", values}, {"coords", second}})}},
            "1.1.0"),
        blobs);
  };
  const auto found = parsed(file(coords));
  REQUIRE(found.has_value());
  REQUIRE(found->unreadable.empty());
  CHECK(tensor(*found, "s/values")->shape == shape_type{3});
  CHECK(tensor(*found, "s/coords")->shape == shape_type{2, 3});
  CHECK(code_of(file(broken)) == errc::wrong_tensor_bytes);
}

TEST_CASE("zt: a read error while a length is counted fails the file, not only the object") {
  // The bytes of the component cannot be read.
  class damaged final : public input {
   public:
    explicit damaged(std::string_view file) : file_(bytes_of(file)) {}
    std::uint64_t bytes() const noexcept override { return file_.bytes(); }
    result<std::span<const std::byte>> read(std::uint64_t offset, std::size_t count) override {
      if (offset == 64) return fault{system_code(EIO), "byte 64"};
      return file_.read(offset, count);
    }

   private:
    memory_input file_;
  };
  const std::string values = zt_component_text("f32", 64, 20, {{"encoding", cbor_text("zstd")}});
  const std::string file =
      with({{"s", zt_object_text({2, 3}, "sparse_coo", {{"values", values}})}}, "1.1.0");
  for (const auto profile : {strictness::strict, strictness::reference}) {
    damaged in(file);
    const auto found = parse_zt(in, profile);
    REQUIRE_FALSE(found.has_value());
    CHECK(found.error().code == system_code(EIO));
    CHECK(found.error().where() == "tensor 's', component 'values': byte 64");
    // Bytes that can be read but not decoded are an error of the object.
    memory_input readable(bytes_of(file));
    const auto decoded = parse_zt(readable, profile);
    REQUIRE(decoded.has_value());
    REQUIRE(decoded->unreadable.size() == 1);
    CHECK(decoded->unreadable[0].cause.code == errc::malformed_stream);
    CHECK(decoded->unreadable[0].is_left_out == (profile == strictness::reference));
  }
}

TEST_CASE("zt: attributes say which blocks the bytes of a tensor are") {
  const auto typed = [](const std::string& key, const std::string& shape) {
    return with({{"t", zt_object_text({34}, "dense", {{"data", zt_component_text("u8", 64, 34)}},
                                      {{"attributes", cbor_map({{key, cbor_text("q8_0")},
                                                                {"original_shape", shape}})}})}});
  };
  for (const char* key : {"gguf_type", "logical_type"}) {
    const auto found = parsed(typed(key, cbor_numbers({1, 32})));
    REQUIRE(found.has_value());
    CHECK(found->tensors.at(0).type == "q8_0");
    CHECK(found->tensors.at(0).original_shape == shape_type{1, 32});
  }
  CHECK(parsed(typed("other", cbor_numbers({1, 32})))->tensors.at(0).type.empty());
  CHECK(parsed(typed("gguf_type", cbor_text("[1,32]")))->tensors.at(0).type.empty());
}

TEST_CASE("zt: what ztensor 1.2.3 wrote is what is found") {
  const std::string path = data_path("zt/all.zt");
  const std::string file = content_of(path);
  const auto found = parsed(file);
  REQUIRE(found.has_value());
  check_expected(*found, path, {file});
  CHECK(found->composites.size() == 3);
  CHECK(std::ranges::count_if(found->tensors, [](const entry& e) { return e.digest != nullptr; }) ==
        2);
  // The CRC is of the bytes as they are stored.
  const entry* const checked = tensor(*found, "packed_crc");
  REQUIRE(checked != nullptr);
  REQUIRE(checked->stored != nullptr);
  const stored_stream& from = checked->stored->pieces.at(0).stored;
  CHECK(number_text(crc32c(bytes_of(file.substr(from.offset, from.bytes))), std::endian::big) ==
        std::string(reinterpret_cast<const char*>(checked->digest->bytes.data()), 4));
}
