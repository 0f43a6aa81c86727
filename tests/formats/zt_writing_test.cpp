// SPDX-License-Identifier: Apache-2.0
#include "formats/zt/zt_writing.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/text/cbor_writer.hpp"
#include "formats/zt/zt_dtype.hpp"
#include "zt_text.hpp"

using namespace ringload;
using namespace ringload::testing;

// The expected manifests are from files that zTensor 1.2.3 has written.
namespace zt_written {

zt_component part(std::string name, dtype type, std::uint64_t bytes, std::string digest = {}) {
  zt_component out;
  out.name = std::move(name);
  out.dtype = type;
  out.length = bytes;
  out.digest = std::move(digest);
  return out;
}

zt_object object(std::string name, std::string format, std::vector<std::uint64_t> shape,
                 std::vector<zt_component> parts) {
  zt_object out;
  out.name = std::move(name);
  out.format = std::move(format);
  out.shape = std::move(shape);
  out.components = std::move(parts);
  return out;
}

zt_object dense(std::string name, std::vector<std::uint64_t> shape, dtype type, std::uint64_t bytes,
                std::string digest = {}) {
  return object(std::move(name), "dense", std::move(shape),
                {part("data", type, bytes, std::move(digest))});
}

// Sets the offsets of the components, in the order of the file.
std::vector<zt_object> placed(std::vector<zt_object> objects) {
  std::uint64_t end = 0;
  for (zt_object& each : objects) {
    for (zt_component& one : *each.components) {
      one.offset = *zt_blob_offset(end, zt_alignment);
      end = *one.offset + *one.length;
    }
    CHECK(check_zt_object(each).has_value());
  }
  return objects;
}

std::string tail(std::vector<zt_object> objects) {
  return zt_tail(zt_version_written, {}, placed(std::move(objects))).value();
}

std::string manifest_of(std::vector<zt_object> objects) {
  const std::string whole = tail(std::move(objects));
  CHECK(whole.substr(whole.size() - 8) == "ZTEN1000");
  const std::string text = whole.substr(0, whole.size() - 16);
  CHECK(whole.substr(text.size(), 8) == number_text(std::uint64_t{text.size()}));
  return text;
}

std::string refusal(std::vector<zt_object> objects) {
  auto answer = zt_tail(zt_version_written, {}, placed(std::move(objects)));
  return answer ? "it was written" : message_of(answer.error());
}

// By name, in hexadecimal digits.
std::map<std::string, std::string> expected_manifests() {
  std::ifstream lines(RINGLOAD_TEST_DATA_DIR "/zt/vectors.txt");
  std::map<std::string, std::string> out;
  std::string name;
  std::string size;
  std::string digest;
  std::string digits;
  while (lines >> name >> size >> digest >> digits) out[name] = digits;
  return out;
}

std::string hex(std::string_view text) {
  std::string out;
  for (const char each : text) {
    out += "0123456789abcdef"[static_cast<unsigned char>(each) >> 4U];
    out += "0123456789abcdef"[static_cast<unsigned char>(each) & 0xFU];
  }
  return out;
}

zt_object f8() {
  zt_component data = part("data", dtype::u8, 6, "crc32c:0x41098514");
  data.type = "f8_e4m3fn";
  return object("q", "dense", {2, 3}, {data});
}

zt_object group() {
  zt_object out = object("g", "quantized_group", {8, 16},
                         {part("packed_weight", dtype::i32, 64), part("scales", dtype::f16, 8),
                          part("zeros", dtype::u8, 4)});
  cbor_writer to(out.encoded_attributes);
  to.map(5);
  to.text("bits");
  to.integer(4);
  to.text("deep");
  to.array(3);
  to.integer(1);
  to.integer(-1);
  to.map(2);
  to.text("k");
  to.null();
  to.text("a");
  to.boolean(true);
  to.text("group_size");
  to.integer(32);
  to.text("packing");
  to.text("8_per_i32");
  to.text("scale");
  to.floating(0.5);
  return out;
}

}  // namespace zt_written

TEST_CASE("zt_tail: twelve manifests are byte for byte those of zTensor 1.2.3") {
  using namespace zt_written;
  const std::map<std::string, std::vector<zt_object>> ours = {
      {"nothing", {}},
      {"raw", {dense("t", {2, 2}, dtype::f32, 16)}},
      {"crc32c", {dense("t", {2, 2}, dtype::f32, 16, "crc32c:0x9EBA690A")}},
      {"sha256",
       {dense("t", {2, 2}, dtype::f32, 16,
              "sha256:ad73b9acd6e4a74b2f5bb5386658ce3bb146cd040a1867646ab3b973fb6632b1")}},
      {"two", {dense("z", {3}, dtype::u8, 3), dense("a", {1}, dtype::i64, 8)}},
      {"empty",
       {dense("e", {0, 3}, dtype::f16, 0, "crc32c:0x00000000"),
        dense("f", {2}, dtype::boolean, 2)}},
      {"bf16", {dense("b", {2}, dtype::bf16, 4)}},
      {"f8", {f8()}},
      {"csr",
       {object("s", "sparse_csr", {2, 4},
               {part("values", dtype::f32, 12, "crc32c:0x384DE783"),
                part("indices", dtype::u64, 24, "crc32c:0xDE3FF13A"),
                part("indptr", dtype::u64, 24, "crc32c:0xBE4B068A")})}},
      {"coo",
       {object("c", "sparse_coo", {2, 4},
               {part("values", dtype::f16, 6,
                     "sha256:984acc913db7827cb2a179d5edbe682fd45e7c2ca557fc61afee988d3c23a822"),
                part("coords", dtype::u64, 48,
                     "sha256:737d0ad8ed952c8cef2f660c301db133d9e27d6eb93fcd2e9d5598fe05bd363b")})}},
      {"group", {group()}},
      {"long", {dense("layer." + std::string(300, 'x'), {70000}, dtype::u32, 280000)}}};
  const auto theirs = expected_manifests();
  REQUIRE(theirs.size() == ours.size());
  for (const auto& [name, objects] : ours) {
    CAPTURE(name);
    CHECK(hex(manifest_of(objects)) == theirs.at(name));
  }
}

TEST_CASE("zt_digest_text: CRC-32C in upper case, SHA-256 in lower") {
  const std::vector<std::byte> four = {std::byte{0x9E}, std::byte{0xBA}, std::byte{0x69},
                                       std::byte{0x0A}};
  CHECK(zt_digest_text(digest_algorithm::crc32c, four) == "crc32c:0x9EBA690A");
  CHECK(zt_digest_text(digest_algorithm::sha256, four) == "sha256:9eba690a");
}

TEST_CASE("zt_blob_offset: the next multiple of the alignment, past the magic") {
  CHECK(zt_blob_offset(0, 64) == 64);
  CHECK(zt_blob_offset(8, 64) == 64);
  CHECK(zt_blob_offset(64, 64) == 64);
  CHECK(zt_blob_offset(65, 64) == 128);
  CHECK(zt_blob_offset(65, 4096) == 4096);
  CHECK(zt_blob_offset(INT64_MAX - 63, 64) == INT64_MAX - 63);
  CHECK(zt_blob_offset(INT64_MAX - 62, 64) == std::nullopt);
  CHECK(zt_blob_offset(UINT64_MAX, 64) == std::nullopt);
}

TEST_CASE("zt_tail: a name that is there twice, and text that is no UTF-8, are refused") {
  using namespace zt_written;
  const zt_object t = dense("t", {1}, dtype::u8, 1);
  CHECK(refusal({t, dense("s", {1}, dtype::u8, 1), t}) == "tensor 't': duplicate tensor name");
  zt_object bad = dense("\xFF", {1}, dtype::u8, 1);
  CHECK(check_zt_object(bad).error().code == errc::header_not_utf8);
}

TEST_CASE("check_zt_object: what would not be read again is not written") {
  using namespace zt_written;
  const auto code = [](zt_object object) {
    std::uint64_t at = 64;
    for (zt_component& each : *object.components) each.offset = std::exchange(at, at + 64);
    auto good = check_zt_object(object);
    return good ? boost::system::error_code() : good.error().code;
  };
  CHECK_FALSE(code(dense("t", {2, 3}, dtype::f16, 12)));
  CHECK(code(dense("t", {2, 3}, dtype::f16, 11)) == errc::wrong_tensor_bytes);
  CHECK(code(dense("t", {UINT64_MAX, 3}, dtype::f16, 12)) == errc::size_overflow);
  CHECK(code(object("t", "dense", {1}, {part("values", dtype::u8, 1)})) == errc::malformed_header);
  CHECK_FALSE(code(object("t", "anything", {}, {part("a", dtype::u8, 1)})));
  const auto csr = [](std::uint64_t rows) {
    return object("t", "sparse_csr", {rows, 5},
                  {part("values", dtype::f32, 12), part("indices", dtype::u64, 24),
                   part("indptr", dtype::u64, 24)});
  };
  CHECK_FALSE(code(csr(2)));
  CHECK(code(csr(3)) == errc::wrong_tensor_bytes);
}

TEST_CASE("zt_element_of: every type of whole bytes has a name, and is read again as that type") {
  using namespace zt_written;
  for (unsigned i = 0; i < dtype_count; ++i) {
    const auto type = static_cast<dtype>(i);
    CAPTURE(name(type));
    const auto element = zt_element_of(type);
    CHECK(element.has_value() == (bits(type) % 8 == 0));
    if (!element) continue;
    zt_component data = part("data", element->stored, 3 * bits(type) / 8);
    data.type = element->type;
    const std::string file =
        "ZTEN1000" + std::string(120, '\1') + tail({object("t", "dense", {3}, {data})});
    const auto found = zt_files::parsed(file);
    REQUIRE(found.has_value());
    CHECK(found->tensors.at(0).dtype == type);
  }
}

TEST_CASE("read_zt_index: keeps attributes as they are, so that they can be written again") {
  using namespace zt_written;
  const std::string odd = "\xBF" + cbor_text("k") + "\xFB\x3F\xF8" + std::string(6, '\0') + "\xFF";
  zt_object t = dense("t", {1}, dtype::u8, 1);
  t.encoded_attributes = odd;
  const std::string own = cbor_map({{"x", "\xF6"}});
  const auto objects = placed({t, dense("s", {1}, dtype::u8, 1)});
  const std::string blobs = "ZTEN1000" + std::string(121, '\1');
  const std::string file = blobs + zt_tail("1.2.9", own, objects).value();
  memory_input in(bytes_of(file));
  const auto kept = read_zt_index(in);
  REQUIRE(kept.has_value());
  CHECK(kept->begin == blobs.size());
  CHECK_FALSE(kept->is_0_1);
  CHECK(kept->encoded_attributes == own);
  CHECK(kept->objects.at(0).name == "s");
  CHECK(kept->objects.at(1).encoded_attributes == odd);
  CHECK(blobs + zt_tail(kept->version, kept->encoded_attributes, kept->objects).value() == file);
}
