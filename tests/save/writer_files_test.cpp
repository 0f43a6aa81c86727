// SPDX-License-Identifier: Apache-2.0

// ringload::writer: appending to files, copying objects and replacing tensors; steps that have
// ended, and repeated attributes.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <optional>

#include "base/unique_fd.hpp"
#include "support/temporary_folder.hpp"
#include "support/written_file.hpp"

namespace asio = boost::asio;
using namespace ringload;
using namespace ringload::testing;

namespace writer_files {

// A file with a raw tensor, a compressed tensor, and a second name for the first.
struct made {
  temporary_folder folder;
  std::string path = (folder.path() / "a.zt").string();
  std::map<std::string, std::string> bytes;

  made() {
    writer out(path);
    put(out, noise_view("raw", dtype::f32, {3000, 500}, 1), packed(0, digest_algorithm::crc32c));
    put(out, noise_view("packed", dtype::u8, {7'000'001}, 2), packed(1));
    object_options how;
    how.attributes = {{"kept", attribute::json(R"([1,{"a":2}])")}};
    put(out, noise_view("small", dtype::u8, {3}, 3), how);
    get(out.add_alias_async("again", "raw", use_future));
    get(out.set_attribute_async("file", 1, use_future));
    finish(out);
    bytes["again"] = bytes["raw"];
  }

  void put(writer& to, const tensor_ref& what, const object_options& how) {
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
  one.put(out, noise_view("new", dtype::u16, {5'000'000}, 9), object_options());
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
  CHECK(read_catalog(one.path).metadata == attributes{{"file", 1}});
}

TEST_CASE("writer: appending keeps the owner, and refuses a file that is not writable") {
  const writer_files::made one;
  const bool is_root = ::geteuid() == 0;
  if (is_root) {
    REQUIRE(::chown(one.path.c_str(), 12345, 12346) == 0);
  } else {
    std::filesystem::permissions(one.path, std::filesystem::perms(0440));
  }
  const std::string before = file_text(one.path);
  const auto append = [&] {
    writer out = writer::append(one.path);
    add(out, noise_view("new", dtype::u8, {5}));
    finish(out);
  };
  if (!is_root) {
    CHECK(code_of_call(append) == boost::system::errc::permission_denied);
    CHECK(file_text(one.path) == before);
    return;
  }
  append();
  struct ::stat status = {};
  REQUIRE(::stat(one.path.c_str(), &status) == 0);
  CHECK(status.st_uid == 12345);
  CHECK(status.st_gid == 12346);
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
  get(out.copy_async(one.path, wanted, copy_options(), use_future));
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
  get(twice.copy_async(one.path, nullptr, copy_options(), use_future));
  CHECK(code_of_call([&] {
          get(twice.copy_async(one.path, nullptr, copy_options(), use_future));
        }) == errc::duplicate_tensor);
}

TEST_CASE("writer: objects are encoded anew where that is wanted, and keep their kind of digest") {
  const writer_files::made one;
  const auto recoded = [&](int level, std::optional<digest_algorithm> digest) {
    const std::string path = one.other("b.zt");
    writer out(path);
    get(out.copy_async(one.path, nullptr, copy_options{level, digest}, use_future));
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
  const tensor_ref old = noise_view("t", dtype::f32, {2'000'000}, 4);
  add(alone, old, packed(0, digest_algorithm::crc32c));
  add(alone, noise_view("z", dtype::u8, {70}, 5));
  finish(alone);
  const tensor_ref young = noise_view("t", dtype::f32, {2'000'000}, 6);
  writer out = writer::append(one.other("b.zt"));
  get(out.replace_async(young, use_future));
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
  const tensor_ref young = noise_view("new", dtype::u8, {9'000'000}, 5);
  get(out.replace_async(young, use_future));
  add(out, noise_view("last", dtype::u8, {9}, 4));
  finish(out);
  CHECK(loaded_bytes(one.path).at("new") == text_of(young));
}

TEST_CASE("writer: only the same type and shape replace, and only what is raw and not shared") {
  const writer_files::made one;
  const std::string before = file_text(one.path);
  const auto refused = [&](const tensor_ref& by) {
    writer out = writer::append(one.path);
    return code_of_call([&] { get(out.replace_async(by, use_future)); });
  };
  CHECK(refused(noise_view("small", dtype::i8, {3})) == errc::wrong_dtype);
  CHECK(refused(noise_view("small", dtype::u8, {3, 1})) == errc::wrong_shape);
  CHECK(refused(noise_view("none", dtype::u8, {3})) == errc::no_such_tensor);
  CHECK(refused(noise_view("packed", dtype::u8, {7'000'001})) == errc::unsupported_feature);
  CHECK(refused(noise_view("raw", dtype::f32, {3000, 500})) == errc::unsupported_feature);
  CHECK(file_text(one.path) == before);
}

TEST_CASE("writer: a declared object without parts is not replaced") {
  const writer_files::made one;
  writer out(one.other("b.zt"));
  object_info group;
  group.name = "g";
  group.layout = "group";
  group.shape = {3};
  get(out.declare_async(group, use_future));
  CHECK(code_of_call([&] {
          get(out.replace_async(noise_view("g", dtype::u8, {3}), use_future));
        }) == errc::unsupported_feature);
}

TEST_CASE("writer: bytes that do not match their digest are copied, but not encoded anew") {
  const writer_files::made one;
  const std::string whole = file_text(one.path);
  for (const char* name : {"raw", "packed"}) {
    CAPTURE(name);
    const bool is_raw = name == std::string("raw");
    writer source(one.other("c.zt"));
    add(source, noise_view(name, dtype::u8, {100'000}, 7),
        packed(is_raw ? 0 : 1, digest_algorithm::crc32c));
    finish(source);
    const tensor_info info = read_catalog(one.other("c.zt")).tensors.at(0);
    std::string damaged = file_text(one.other("c.zt"));
    damaged[info.offset + info.stored_bytes / 2] ^= 1;
    write_file(one.other("c.zt"), damaged);
    const auto copied = [&](const copy_options& how) -> std::string {
      try {
        writer out(one.other("b.zt"));
        get(out.copy_async(one.other("c.zt"), nullptr, how, use_future));
        finish(out);
      } catch (const error& e) {
        return e.code() == errc::wrong_digest ? e.what() : "another error";
      }
      return "";
    };
    CHECK(copied(copy_options()).empty());
    CHECK(read_catalog(one.other("b.zt")).tensors.at(0).digest == info.digest);
    for (const copy_options& how : {copy_options{5, {}}, copy_options{0, digest_algorithm::crc32c},
                                    copy_options{{}, digest_algorithm::crc32c}}) {
      const std::string why = copied(how);
      CHECK(why.find("c.zt: tensor '" + std::string(name) + "'") != std::string::npos);
      CHECK(why.find("' is crc32c:0x") != std::string::npos);
      CHECK(why.find("the digest in the file is crc32c:0x") != std::string::npos);
    }
  }
  CHECK(file_text(one.path) == whole);
}

TEST_CASE(
    "writer: a digest of an unknown kind stays with copied bytes, and a note tells its loss") {
  const writer_files::made one;
  writer source(one.other("c.zt"));
  add(source, noise_view("t", dtype::u8, {1000}), packed(0, digest_algorithm::crc32c));
  finish(source);
  std::string text = file_text(one.other("c.zt"));
  text.replace(text.find("crc32c:0x"), 9, "xxh3x64:=");
  write_file(one.other("c.zt"), text);
  const auto copied = [&](const copy_options& how) {
    writer out(one.other("b.zt"));
    get(out.copy_async(one.other("c.zt"), nullptr, how, use_future));
    return finish(out).notes.size();
  };
  CHECK(copied(copy_options()) == 0);
  CHECK(file_text(one.other("b.zt")).find("xxh3x64:=") != std::string::npos);
  CHECK(copied(copy_options{3, {}}) == 1);
  CHECK(file_text(one.other("b.zt")).find("xxh3x64:=") == std::string::npos);
}

TEST_CASE("writer: attributes that are read and written again are the same CBOR") {
  const writer_files::made one;
  const attributes all = {{"a", 5},
                          {"b", "5"},
                          {"c", attribute()},
                          {"d", "null"},
                          {"e", attribute::cbor("\x42\x01\xAB")},
                          {"f", "01ab"},
                          {"g", attribute::json(R"([1,{"x":[2.5]}])")},
                          {"h", attribute::cbor(std::string("\xF9\x7E\x00", 3))},
                          {"i", attribute::cbor("\xA1\x01\x02")},
                          {"j", attribute::cbor("\xC2\x49\x01" + std::string(8, '\0'))}};
  const auto write = [&](const std::string& path, const attributes& own,
                         const attributes& of_file) {
    writer out(path);
    object_options how;
    how.attributes = own;
    add(out, noise_view("t", dtype::u8, {4}), how);
    object_info group;
    group.name = "g";
    group.layout = "group";
    group.attributes = own;
    get(out.declare_async(group, use_future));
    get(out.add_part_async("g", noise_view("p", dtype::u8, {4}), object_options(), use_future));
    for (const auto& [key, value] : of_file) {
      get(out.set_attribute_async(key, value, use_future));
    }
    finish(out);
  };
  write(one.path, all, all);
  const catalog found = read_catalog(one.path);
  const tensor_info& t = *std::ranges::find(found.tensors, "t", &tensor_info::name);
  CHECK(found.metadata == all);
  CHECK(t.attributes == all);
  CHECK(found.composites.at(0).attributes == all);
  write(one.other("b.zt"), t.attributes, found.metadata);
  CHECK(file_text(one.path) == file_text(one.other("b.zt")));
}

TEST_CASE("planned: only bytes that a load would dequantise have another type and shape") {
  load_options how;
  how.dtype = dtype::f32;
  tensor_info blocks;
  blocks.name = "w";
  blocks.shape = {68};
  blocks.bytes = blocks.stored_bytes = 68;
  blocks.type = "q8_0";
  blocks.original_shape = {2, 32};
  const auto has = [&](const tensor_info& stored, dtype type, std::vector<std::uint64_t> shape) {
    const planned_tensor found = planned(stored, how);
    return found.dtype == type && found.shape == shape;
  };
  CHECK(has(blocks, dtype::f32, {2, 32}));
  tensor_info shapeless = blocks;
  shapeless.original_shape.clear();
  CHECK(has(shapeless, dtype::u8, {68}));
  tensor_info longer = blocks;
  longer.original_shape = {2, 64};
  CHECK(has(longer, dtype::u8, {68}));
  tensor_info table = blocks;
  table.shape = {2, 34};
  CHECK(has(table, dtype::u8, {2, 34}));
  tensor_info packed_halves = blocks;  // A load with a dtype refuses this tensor.
  packed_halves.dtype = dtype::f16;
  packed_halves.type = "another";
  CHECK(has(packed_halves, dtype::f16, {68}));
  how.converts = [](const tensor_info&) { return false; };
  CHECK(has(blocks, dtype::u8, {68}));
}

TEST_CASE("writer: two that append to one file do not lose each other's tensors") {
  writer_files::made one;
  const auto busy = boost::system::error_code(EBUSY, boost::system::system_category());
  writer first = writer::append(one.path);
  one.put(first, noise_view("first", dtype::u8, {10}, 1), object_options());
  {
    writer second = writer::append(one.path);
    CHECK(code_of_call([&] { add(second, noise_view("second", dtype::u8, {10})); }) == busy);
  }
  finish(first);
  writer third = writer::append(one.path);
  one.put(third, noise_view("third", dtype::u8, {10}, 3), object_options());
  // Another file replaces it meanwhile.
  std::filesystem::copy_file(one.path, one.other("b.zt"));
  std::filesystem::rename(one.other("b.zt"), one.path);
  CHECK(code_of_call([&] { finish(third); }) == errc::changed_file);
  one.bytes.erase("third");
  CHECK(loaded_bytes(one.path) == one.bytes);
}

TEST_CASE("writer: appending to a link appends to what it leads to") {
  writer_files::made one;
  std::filesystem::create_symlink("a.zt", one.other("link.zt"));
  writer out = writer::append(one.other("link.zt"));
  one.put(out, noise_view("new", dtype::u8, {10}, 1), object_options());
  finish(out);
  CHECK(std::filesystem::is_symlink(one.other("link.zt")));
  CHECK(loaded_bytes(one.path) == one.bytes);
}

TEST_CASE("writer: a file with an object that cannot be read is rewritten without it") {
  writer_files::made one;
  std::string text = file_text(one.path);
  // The element type of one object gets an unknown name.
  const std::size_t small = text.find("small");
  text.replace(text.find("bu8", small), 3, "bu7");
  write_file(one.path, text);
  const catalog found = read_catalog(one.path);
  REQUIRE(found.unreadable.size() == 1);
  CHECK(found.unreadable[0].name == "small");
  const auto copied = [&](std::function<bool(std::string_view)> chosen) {
    return code_of_call([&] {
      writer out(one.other("b.zt"));
      get(out.copy_async(one.path, std::move(chosen), copy_options(), use_future));
      finish(out);
    });
  };
  CHECK(copied(nullptr) == errc::unsupported_feature);
  CHECK_FALSE(copied([](std::string_view name) { return name != "small"; }));
  one.bytes.erase("small");
  CHECK(loaded_bytes(one.other("b.zt")) == one.bytes);
  // A load of all is refused by the object's name, and a load of the others is not.
  loader with(host(), small_options());
  const checkpoint opened = get(with.open_async(one.path, use_future));
  const auto loaded = [&](const selection& wanted) {
    return code_of_call([&] { get(with.load_async(opened, wanted, use_future)); });
  };
  CHECK(loaded(select()) == errc::unsupported_feature);
  CHECK(loaded(select().matching("*ma*")) == errc::unsupported_feature);
  CHECK(loaded(select().names({"small"})) == errc::unsupported_feature);
  CHECK_FALSE(loaded(select().except("small")));
  CHECK_FALSE(loaded(select().names({"raw", "packed"})));
  load_options lax;
  lax.open.strictness = strictness::reference;
  const model rest = get(with.load_async(one.path, lax, use_future));
  CHECK(rest.size() == one.bytes.size());
  CHECK(rest.catalog().notes.size() == 1);
  CHECK(code_of_call([&] { (void)opened.at("small"); }) == errc::unsupported_feature);
}

TEST_CASE("writer: what a killed process has left in the folder is removed, and nothing else") {
  const temporary_folder folder;
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  REQUIRE(::waitpid(child, nullptr, 0) == child);
  const std::string dead = ".ringload-" + std::to_string(child) + "-";
  const std::string alive = ".ringload-" + std::to_string(::getppid()) + "-0";
  const auto path = [&](const std::string& name) { return (folder.path() / name).string(); };
  write_file(path(dead + "0"), "bytes");
  std::filesystem::create_directory(path(dead + "1"));
  write_file(path(dead + "1/model-00001-of-00002.safetensors"), "bytes");
  std::filesystem::create_directory(path(dead + "2"));
  write_file(path(dead + "2/somebody's"), "bytes");
  write_file(path(dead + "3"), "bytes");
  const unique_fd locked(::open(path(dead + "3").c_str(), O_RDONLY | O_CLOEXEC));
  REQUIRE(::flock(locked.get(), LOCK_EX | LOCK_NB) == 0);
  std::filesystem::create_symlink(dead + "2", path(dead + "4"));
  const std::vector<std::string> others = {alive, dead + "x", ".ringload-x-0", dead.substr(0, 10)};
  for (const std::string& other : others) write_file(path(other), "bytes");
  writer out(path("a.zt"));
  finish(out);
  for (const std::string& gone : {dead + "0", dead + "1"}) {
    CHECK_FALSE(std::filesystem::exists(std::filesystem::symlink_status(path(gone))));
  }
  for (const std::string& there : {dead + "2", dead + "3", dead + "4"}) {
    CHECK(std::filesystem::exists(std::filesystem::symlink_status(path(there))));
  }
  for (const std::string& other : others) CHECK(std::filesystem::exists(path(other)));
}

TEST_CASE("writer: a cancellation after the end of a step does not cancel the writer") {
  const temporary_folder folder;
  asio::io_context context;
  writer_options options;
  options.executor = context.get_executor();
  writer out((folder.path() / "a.zt").string(), options);
  asio::cancellation_signal stop;
  std::optional<boost::system::error_code> ended;
  out.add_async(noise_view("a", dtype::u8, {5}),
                asio::bind_cancellation_slot(
                    stop.slot(), [&](boost::system::error_code failed, auto) { ended = failed; }));
  // The next step completes in another thread, so the first step has ended. Its handler waits in
  // the context.
  CHECK_FALSE(code_of_call([&] { add(out, noise_view("b", dtype::u8, {5})); }));
  stop.emit(asio::cancellation_type::terminal);
  context.run_for(patience);
  REQUIRE(ended.has_value());
  CHECK_FALSE(*ended);
  CHECK_FALSE(code_of_call([&] { add(out, noise_view("c", dtype::u8, {5})); }));
  CHECK_FALSE(code_of_call([&] { finish(out); }));
}

TEST_CASE("writer: an object with a repeated attribute is refused") {
  const temporary_folder folder;
  writer out((folder.path() / "a.zt").string());
  object_info repeated;
  repeated.name = "b";
  repeated.layout = "group";
  repeated.attributes = {{"key", 1}, {"other", 2}, {"key", 1}};
  CHECK(code_of_call([&] { get(out.declare_async(repeated, use_future)); }) ==
        errc::invalid_saving);
}
