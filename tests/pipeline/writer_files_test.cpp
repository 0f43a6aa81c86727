// SPDX-License-Identifier: Apache-2.0

// ringload::writer: files that are made from others, by appending, copying and replacing.

#include <doctest/doctest.h>

#include <filesystem>
#include <functional>

#include "support/temporary_folder.hpp"
#include "support/written_file.hpp"

namespace asio = boost::asio;
using namespace ringload;
using namespace ringload::testing;

namespace writer_files {

// A file with a raw tensor, one that is packed, and one more name for the first.
struct made {
  temporary_folder folder;
  std::string path = (folder.path() / "a.zt").string();
  std::map<std::string, std::string> bytes;

  made() {
    writer out(path);
    put(out, noise_view("raw", dtype::f32, {3000, 500}, 1), packed(0, digest_algorithm::crc32c));
    put(out, noise_view("packed", dtype::u8, {7'000'001}, 2), packed(1));
    storing how;
    how.attributes = {{"kept", attribute::json(R"([1,{"a":2}])")}};
    put(out, noise_view("small", dtype::u8, {3}, 3), how);
    get(out.add_alias_async("again", "raw", asio::use_future));
    get(out.set_attribute_async("file", 1, asio::use_future));
    finish(out);
    bytes["again"] = bytes["raw"];
  }

  void put(writer& to, const tensor_view& what, const storing& how) {
    bytes[what.name] = text_of(what);
    add(to, what, how);
  }
  std::string other(const char* name) const { return (folder.path() / name).string(); }
};

}  // namespace writer_files

TEST_CASE("writer: appending keeps all that was there, and its bytes") {
  writer_files::made one;
  const std::string before = file_text(one.path);
  std::filesystem::permissions(one.path, std::filesystem::perms(0640));
  writer out = writer::append(one.path);
  one.put(out, noise_view("new", dtype::u16, {5'000'000}, 9), storing());
  CHECK(file_text(one.path) == before);
  finish(out);
  CHECK(loaded_bytes(one.path) == one.bytes);
  const std::string after = file_text(one.path);
  // Up to the old manifest, whose size is 16 bytes before the end.
  std::uint64_t manifest = 0;
  std::memcpy(&manifest, before.data() + before.size() - 16, 8);
  const std::size_t kept = before.size() - 16 - manifest;
  CHECK(after.substr(0, kept) == before.substr(0, kept));
  CHECK(std::filesystem::status(one.path).permissions() == std::filesystem::perms(0640));
  CHECK(read_catalog(one.path).metadata == decltype(catalog().metadata){{"file", "1"}});
}

TEST_CASE("writer: appending nothing gives the same file") {
  const writer_files::made one;
  const std::string before = file_text(one.path);
  writer out = writer::append(one.path);
  finish(out);
  CHECK(file_text(one.path) == before);
}

TEST_CASE("writer: appending a name that is there, or to no .zt file, changes nothing") {
  const writer_files::made one;
  const std::string before = file_text(one.path);
  writer out = writer::append(one.path);
  CHECK(code_of_call([&] { add(out, noise_view("raw", dtype::u8, {5})); }) ==
        errc::duplicate_tensor);
  CHECK(file_text(one.path) == before);
  write_file(one.other("b.zt"), before.substr(0, before.size() - 1));
  const auto appended = [](const std::string& path) {
    return code_of_call([&] {
      writer to = writer::append(path);
      finish(to);
    });
  };
  CHECK(appended(one.other("b.zt")) == errc::malformed_header);
  CHECK(appended(one.other("no.zt")) == boost::system::errc::no_such_file_or_directory);
}

TEST_CASE("writer: objects are copied as they are stored, and bytes they share once") {
  writer_files::made one;
  const std::string path = one.other("b.zt");
  writer out(path);
  add(out, noise_view("first", dtype::u8, {100}));
  const auto wanted = [](std::string_view name) { return name != "packed"; };
  get(out.copy_async(one.path, wanted, copying(), asio::use_future));
  finish(out);
  one.bytes.erase("packed");
  one.bytes["first"] = text_of(noise_view("first", dtype::u8, {100}));
  CHECK(loaded_bytes(path) == one.bytes);
  CHECK(std::filesystem::file_size(path) < 6'001'000);
  const std::string manifest = file_text(path);
  CHECK(manifest.find("crc32c:0x") != std::string::npos);
  CHECK(manifest.find("kept\x82\x01\xA1\x61"
                      "a\x02") != std::string::npos);
  writer twice(path);
  get(twice.copy_async(one.path, nullptr, copying(), asio::use_future));
  CHECK(code_of_call([&] {
          get(twice.copy_async(one.path, nullptr, copying(), asio::use_future));
        }) == errc::duplicate_tensor);
}

TEST_CASE("writer: objects are encoded anew where that is wanted, and keep their kind of digest") {
  const writer_files::made one;
  const auto recoded = [&](int level, std::optional<digest_algorithm> digest) {
    const std::string path = one.other("b.zt");
    writer out(path);
    get(out.copy_async(one.path, nullptr, copying{level, digest}, asio::use_future));
    finish(out);
    CHECK(loaded_bytes(path) == one.bytes);
    const std::string text = file_text(path);
    for (const tensor_info& each : read_catalog(path).tensors) {
      CHECK(each.encoding == (level == 0 ? "" : "zstd"));
    }
    std::size_t digests = 0;
    for (std::size_t at = 0; (at = text.find("crc32c:0x", at)) != std::string::npos; ++at) {
      ++digests;
    }
    return digests;
  };
  CHECK(recoded(0, std::nullopt) == 2);
  CHECK(recoded(5, std::nullopt) == 2);
  CHECK(recoded(1, digest_algorithm::crc32c) == 4);
}

TEST_CASE("writer: a tensor's elements are replaced, and its digest") {
  writer_files::made one;
  writer alone(one.other("b.zt"));
  const tensor_view old = noise_view("t", dtype::f32, {2'000'000}, 4);
  add(alone, old, packed(0, digest_algorithm::crc32c));
  add(alone, noise_view("z", dtype::u8, {70}, 5));
  finish(alone);
  const tensor_view young = noise_view("t", dtype::f32, {2'000'000}, 6);
  writer out = writer::append(one.other("b.zt"));
  get(out.replace_async(young, asio::use_future));
  finish(out);
  const auto bytes = loaded_bytes(one.other("b.zt"));
  CHECK(bytes.at("t") == text_of(young));
  CHECK(bytes.at("z") == text_of(noise_view("z", dtype::u8, {70}, 5)));
  writer fresh(one.other("c.zt"));
  add(fresh, young, packed(0, digest_algorithm::crc32c));
  add(fresh, noise_view("z", dtype::u8, {70}, 5));
  finish(fresh);
  CHECK(file_text(one.other("b.zt")) == file_text(one.other("c.zt")));
}

TEST_CASE("writer: what has just been appended can be replaced too") {
  const writer_files::made one;
  writer out = writer::append(one.path);
  add(out, noise_view("new", dtype::u8, {9'000'000}, 4));
  const tensor_view young = noise_view("new", dtype::u8, {9'000'000}, 5);
  get(out.replace_async(young, asio::use_future));
  add(out, noise_view("last", dtype::u8, {9}, 4));
  finish(out);
  CHECK(loaded_bytes(one.path).at("new") == text_of(young));
}

TEST_CASE("writer: only the same type and shape replace, and only what is raw and not shared") {
  const writer_files::made one;
  const std::string before = file_text(one.path);
  const auto refused = [&](const tensor_view& by) {
    writer out = writer::append(one.path);
    return code_of_call([&] { get(out.replace_async(by, asio::use_future)); });
  };
  CHECK(refused(noise_view("small", dtype::i8, {3})) == errc::wrong_dtype);
  CHECK(refused(noise_view("small", dtype::u8, {3, 1})) == errc::wrong_shape);
  CHECK(refused(noise_view("none", dtype::u8, {3})) == errc::no_such_tensor);
  CHECK(refused(noise_view("packed", dtype::u8, {7'000'001})) == errc::unsupported_feature);
  CHECK(refused(noise_view("raw", dtype::f32, {3000, 500})) == errc::unsupported_feature);
  CHECK(file_text(one.path) == before);
}
