// SPDX-License-Identifier: Apache-2.0
#include "catalog/resolve_source.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <ringload/byte_source.hpp>
#include <ringload/error.hpp>
#include <ringload/source.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "support/checkpoint_folder.hpp"
#include "support/memory_store.hpp"
#include "support/temporary_folder.hpp"

using namespace ringload;
using ringload::testing::cached_repository;
using ringload::testing::index_text;
using ringload::testing::memory_script;
using ringload::testing::memory_store;
using ringload::testing::temporary_folder;
using ringload::testing::tiny_tensors_text;
using ringload::testing::write_file;

namespace {

namespace fs = std::filesystem;

// Only the variable of the cache folder is set.
environment cache_in(const fs::path& folder) {
  return [folder](const std::string& name) -> std::optional<std::string> {
    if (name == "HF_HUB_CACHE") return folder.native();
    return std::nullopt;
  };
}

result<parsed_source> opened(const fs::path& source, const fs::path& cache = "/nonexistent") {
  return resolve_source(source.native(), strictness::strict, cache_in(cache));
}

result<parsed_source> independent(const fs::path& source, const fs::path& cache = "/nonexistent") {
  source_options how(strictness::strict);
  how.independent_files = true;
  return resolve_source(source.native(), how, cache_in(cache));
}

std::string names(const result<parsed_source>& of) {
  if (!of) return message_of(of.error());
  std::string out;
  for (const tensor_info& each : of->catalog.tensors) out += each.name + " ";
  CHECK(of->files.size() == of->catalog.files.size());
  return out;
}

fault fault_of(const result<parsed_source>& of) {
  REQUIRE_FALSE(of.has_value());
  return of.error();
}

bool mentions(const fault& what, std::string_view text) {
  CAPTURE(message_of(what));
  return message_of(what).find(text) != std::string::npos;
}

class working_folder {
 public:
  explicit working_folder(const fs::path& folder) : before_(fs::current_path()) {
    fs::current_path(folder);
  }
  ~working_folder() { fs::current_path(before_); }

 private:
  fs::path before_;
};

// A store whose sources are all on this machine.
class local_store final : public byte_store {
 public:
  bool has_name(std::string_view source) const noexcept override {
    return source.starts_with("local://") || source.starts_with("hf://") || source == "owner/name";
  }
  found_source find(std::string_view, const std::stop_token&) override {
    ++asked;
    found_source out;
    out.local_path = path;
    return out;
  }

  std::string path;
  int asked = 0;
};

}  // namespace

TEST_CASE("source: a file that is named is loaded, whatever it is called") {
  const temporary_folder at;
  for (const char* name : {"model.safetensors", "weights.bin", "noname"}) {
    write_file(at.path() / name, tiny_tensors_text({"a", "b"}));
    const auto found = opened(at.path() / name);
    CHECK(names(found) == "a b ");
    REQUIRE(found.has_value());
    CHECK(found->catalog.files[0].path == at.path() / name);
    CHECK(found->catalog.files[0].bytes == fs::file_size(at.path() / name));
    CHECK(found->catalog.tensors[1].offset == found->catalog.files[0].bytes - 1);
  }
  // A file that the user names may be a symlink to anywhere.
  fs::create_symlink(at.path() / "noname", at.path() / "link");
  CHECK(names(opened(at.path() / "link")) == "a b ");
}

TEST_CASE("source: a relative path stays relative in the catalog") {
  const temporary_folder at;
  const working_folder in(at.path());
  write_file("dir/model.safetensors", tiny_tensors_text({"a"}));
  CHECK(opened("dir")->catalog.files[0].path == "dir/model.safetensors");
  CHECK(opened("./dir/")->catalog.files[0].path == "./dir/model.safetensors");
  CHECK(opened("dir/model.safetensors")->catalog.files[0].path == "dir/model.safetensors");
}

TEST_CASE("source: a folder is loaded by its index, its file or its series") {
  const temporary_folder at;
  write_file(at.path() / "1/model-00001-of-00002.safetensors", tiny_tensors_text({"a", "b"}));
  write_file(at.path() / "1/model-00002-of-00002.safetensors", tiny_tensors_text({"c"}));
  CHECK(names(opened(at.path() / "1")) == "a b c ");
  write_file(at.path() / "1/model.safetensors", tiny_tensors_text({"single"}));
  CHECK(names(opened(at.path() / "1")) == "single ");
  write_file(at.path() / "1/model.safetensors.index.json",
             index_text({{"c", "model-00002-of-00002.safetensors"},
                         {"a", "model-00001-of-00002.safetensors"}}));
  const auto listed = opened(at.path() / "1");
  CHECK(names(listed) == "a c ");
  CHECK(listed->catalog.notes.size() == 1);
  CHECK(names(opened(at.path() / "1/model.safetensors.index.json")) == "a c ");
}

TEST_CASE("source: an index in the working folder needs no folder in its name") {
  const temporary_folder at;
  const working_folder in(at.path());
  write_file("x.index.json", index_text({{"a", "sub/s.safetensors"}}));
  write_file("sub/s.safetensors", tiny_tensors_text({"a"}));
  CHECK(names(opened("x.index.json")) == "a ");
}

TEST_CASE("source: a series without an index must be whole and name nothing twice") {
  const temporary_folder at;
  write_file(at.path() / "model-00001-of-00002.safetensors", tiny_tensors_text({"a"}));
  const fault gap = fault_of(opened(at.path()));
  CHECK(gap.code == errc::incomplete_series);
  CHECK(mentions(gap, "'model-00002-of-00002.safetensors' is missing"));
  CHECK(mentions(gap, at.path().native()));

  write_file(at.path() / "model-00002-of-00002.safetensors", tiny_tensors_text({"b", "a"}));
  const fault twice = fault_of(opened(at.path()));
  CHECK(twice.code == errc::duplicate_tensor);
  CHECK(mentions(twice, "model-00001-of-00002.safetensors: tensor 'a'"));
  CHECK(mentions(twice, "model-00002-of-00002.safetensors"));
}

TEST_CASE("source: an index whose shard or tensor is missing is refused by name") {
  const temporary_folder at;
  write_file(at.path() / "model.safetensors.index.json",
             index_text({{"a", "s1.safetensors"}, {"b", "s2.safetensors"}}));
  write_file(at.path() / "s1.safetensors", tiny_tensors_text({"a"}));
  const fault shard = fault_of(opened(at.path()));
  CHECK(shard.code == errc::incomplete_series);
  CHECK(mentions(shard, "tensor 'b': the shard 's2.safetensors' is missing"));

  write_file(at.path() / "s2.safetensors", tiny_tensors_text({"c"}));
  const fault tensor = fault_of(opened(at.path()));
  CHECK(tensor.code == errc::missing_tensor);
  CHECK(mentions(tensor, "s2.safetensors: tensor 'b'"));
}

TEST_CASE("source: faults in a file name the file") {
  const temporary_folder at;
  write_file(at.path() / "model.safetensors", testing::safetensors_text("{", "x"));
  const fault broken = fault_of(opened(at.path()));
  CHECK(broken.code == errc::malformed_header);
  CHECK(broken.where().starts_with((at.path() / "model.safetensors").native() + ": byte "));
  write_file(at.path() / "x.index.json", "{}");
  CHECK(fault_of(opened(at.path() / "x.index.json")).code == errc::malformed_index);
}

TEST_CASE("source: what is no regular file is refused without blocking") {
  const temporary_folder at;
  REQUIRE(::mkfifo((at.path() / "fifo").c_str(), 0600) == 0);
  CHECK(fault_of(opened(at.path() / "fifo")).code == errc::not_a_regular_file);
  REQUIRE(::mknod((at.path() / "socket").c_str(), S_IFSOCK | 0600, 0) == 0);
  CHECK(fault_of(opened(at.path() / "socket")).code == errc::not_a_regular_file);
  CHECK(fault_of(opened("/dev/null")).code == errc::not_a_regular_file);
  CHECK(fault_of(opened(at.path())).code == errc::not_a_checkpoint);
  fs::create_directory(at.path() / "model.safetensors");
  CHECK(fault_of(opened(at.path())).code == errc::not_a_regular_file);
  fs::create_directory(at.path() / "x.index.json");
  CHECK(fault_of(opened(at.path() / "x.index.json")).code == errc::not_a_checkpoint);
  write_file(at.path() / "pointer", "version https://git-lfs.github.com/spec/v1\n");
  CHECK(fault_of(opened(at.path() / "pointer")).code == errc::not_a_checkpoint);
}

TEST_CASE("source: what cannot be opened keeps its errno") {
  const temporary_folder circular;
  fs::create_symlink("circle", circular.path() / "circle");
  const fault circle = fault_of(opened(circular.path() / "circle"));
  CHECK(circle.code == boost::system::errc::too_many_symbolic_link_levels);
  CHECK(circle.where() == circular.path() / "circle");
}

TEST_CASE("source: a file that may not be read keeps its errno") {
  if (::geteuid() == 0) {
    std::cout << "skipped: root may open every file\n";
    return;
  }
  const temporary_folder at;
  write_file(at.path() / "f", "x");
  fs::permissions(at.path() / "f", fs::perms::none);
  CHECK(fault_of(opened(at.path() / "f")).code == boost::system::errc::permission_denied);
}

TEST_CASE("source: for a name like a path, the error is about a path") {
  const temporary_folder at;
  for (const std::string path : {"/nonexistent/x", "./x", "../x", "~/x", "x.safetensors", "x.json",
                                 "a/b/c", "owner/x.safetensors"}) {
    CAPTURE(path);
    const fault none = fault_of(opened(path, at.path()));
    CHECK(none.code == errc::source_not_found);
    CHECK(message_of(none) == path + ": there is no such file or folder");
  }
  fs::create_symlink("nowhere", at.path() / "broken");
  CHECK(mentions(fault_of(opened(at.path() / "broken")), "may be incomplete"));
}

TEST_CASE("source: for a name like a model's, the error is about both") {
  const temporary_folder at;
  const fault none = fault_of(opened("owner/name", at.path()));
  CHECK(none.code == errc::source_not_found);
  CHECK(mentions(none, "owner/name: there is no such file or folder"));
  CHECK(mentions(none, (at.path() / "models--owner--name").native()));
  const fault illegal = fault_of(opened("no model", at.path()));
  CHECK(illegal.code == errc::invalid_source_name);
  CHECK(mentions(illegal, "there is no such file or folder"));
  CHECK(fault_of(opened(std::string(5000, 'x'), at.path())).code == errc::invalid_source_name);
  CHECK(fault_of(opened("")).code == errc::invalid_source_name);
  CHECK(fault_of(opened(std::string("a\0b", 3))).code == errc::invalid_source_name);
}

TEST_CASE("source: an existing path takes precedence over a model's name") {
  const temporary_folder at;
  const working_folder in(at.path());
  const cached_repository cached(at.path() / "hub", "models--owner--name");
  cached.add("model.safetensors", tiny_tensors_text({"cached"}));
  CHECK(names(opened("owner/name", at.path() / "hub")) == "cached ");
  write_file("owner/name/model.safetensors", tiny_tensors_text({"local"}));
  CHECK(names(opened("owner/name", at.path() / "hub")) == "local ");
}

TEST_CASE("source: a cached model is found through the symlinks of its snapshot") {
  const temporary_folder at;
  const cached_repository cached(at.path(), "models--owner--name");
  cached.add("s1.safetensors", tiny_tensors_text({"a"}));
  cached.add("sub/s2.safetensors", tiny_tensors_text({"b"}));
  cached.add("model.safetensors.index.json",
             index_text({{"a", "s1.safetensors"}, {"b", "sub/s2.safetensors"}}));
  const auto found = opened("owner/name@main", at.path());
  CHECK(names(found) == "a b ");
  CHECK(found->catalog.files[0].path == cached.snapshot() / "s1.safetensors");

  // Also by any other path of the same file.
  CHECK(names(opened(cached.snapshot())) == "a b ");
  CHECK(names(opened(cached.snapshot() / "model.safetensors.index.json")) == "a b ");
  CHECK(names(opened(cached.snapshot() / "s1.safetensors")) == "a ");
  CHECK(names(opened(cached.snapshot() / "sub")) == "b ");
  fs::create_directory_symlink(cached.snapshot(), at.path() / "shortcut");
  CHECK(names(opened(at.path() / "shortcut")) == "a b ");
}

TEST_CASE("source: a snapshot may hold plain files where symlinks are off") {
  const temporary_folder at;
  const cached_repository cached(at.path(), "models--name");
  write_file(cached.snapshot() / "model.safetensors", tiny_tensors_text({"a"}));
  CHECK(names(opened("name", at.path())) == "a ");
}

TEST_CASE("source: a cached model whose blob is missing is an incomplete download") {
  const temporary_folder at;
  const cached_repository single(at.path(), "models--single");
  single.add_link("model.safetensors");
  const fault file = fault_of(opened("single", at.path()));
  CHECK(file.code == errc::source_not_found);
  CHECK(mentions(file, "may be incomplete"));

  const cached_repository sharded(at.path(), "models--sharded");
  sharded.add("model.safetensors.index.json", index_text({{"a", "s1.safetensors"}}));
  sharded.add_link("s1.safetensors");
  const fault shard = fault_of(opened("sharded", at.path()));
  CHECK(shard.code == errc::incomplete_series);
  CHECK(mentions(shard, "may be incomplete"));
  CHECK(mentions(shard, "tensor 'a'"));
}

TEST_CASE("source: the reference profile reaches the files") {
  const temporary_folder at;
  const std::string entry = R"({"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  write_file(at.path() / "f",
             testing::safetensors_text(R"({"a":)" + entry + R"(,"a":)" + entry + "}", "x"));
  const std::string path = (at.path() / "f").native();
  CHECK(resolve_source(path, strictness::strict).error().code == errc::duplicate_tensor);
  CHECK(resolve_source(path, strictness::reference).has_value());
}

TEST_CASE("source: read_catalog throws an error that has a code and a place") {
  const temporary_folder at;
  write_file(at.path() / "f", tiny_tensors_text({"a", "b"}));
  CHECK(read_catalog((at.path() / "f").native()).size_bytes() == 2);
  try {
    read_catalog((at.path() / "none.safetensors").native());
    FAIL("nothing was thrown");
  } catch (const error& thrown) {
    CHECK(thrown.code() == errc::source_not_found);
    CHECK(thrown.place() == (at.path() / "none.safetensors").native());
  }
}

TEST_CASE("source: files of real writers are read") {
  const char* named = std::getenv("RINGLOAD_DATA");
  const fs::path data = named != nullptr ? named : RINGLOAD_DATA_DIR;
  int read = 0;
  for (const char* name : {"mnist.safetensors", "jfk-codes.safetensors", "multi_layer.safetensors",
                           "voices.safetensors"}) {
    if (!fs::exists(data / name)) {
      std::cout << "skipped: there is no " << (data / name).native() << '\n';
      continue;
    }
    CAPTURE(name);
    const auto found = opened(data / name);
    REQUIRE_MESSAGE(found.has_value(), names(found));
    CHECK_FALSE(found->catalog.tensors.empty());
    const tensor_info& last = found->catalog.tensors.back();
    CHECK(last.offset + last.bytes == fs::file_size(data / name));
    ++read;
  }
  MESSAGE("read ", read, " files");
}

TEST_CASE("source: several files that are named are one checkpoint, in the order given") {
  const temporary_folder at;
  const std::string first = at.path() / "b.safetensors";
  const std::string second = at.path() / "a.safetensors";
  write_file(first, tiny_tensors_text({"x"}));
  write_file(second, tiny_tensors_text({"y"}));
  const std::vector<std::string> both = {first, second};
  CHECK(names(open_files(both, strictness::strict)) == "x y ");
  const std::vector<std::string> twice = {first, first};
  CHECK(fault_of(open_files(twice, strictness::strict)).code == errc::duplicate_tensor);
  const std::vector<std::string> lacking = {first, at.path() / "c.safetensors"};
  const fault absent = fault_of(open_files(lacking, strictness::strict));
  CHECK(absent.code == errc::source_not_found);
  CHECK(mentions(absent, "c.safetensors"));
  const std::vector<std::string> folder = {at.path().native()};
  CHECK(fault_of(open_files(folder, strictness::strict)).code == errc::not_a_regular_file);
  CHECK(fault_of(open_files({}, strictness::strict)).code == errc::invalid_source_name);
}

TEST_CASE("source: a folder of independent files is all of them, if that is asked for") {
  const temporary_folder at;
  write_file(at.path() / "encoder.safetensors", tiny_tensors_text({"e"}));
  write_file(at.path() / "decoder.safetensors", tiny_tensors_text({"d"}));
  write_file(at.path() / "notes.txt", "no checkpoint");
  CHECK(fault_of(opened(at.path())).code == errc::ambiguous_source);
  CHECK(names(independent(at.path())) == "d e ");
  const temporary_folder empty;
  CHECK(fault_of(independent(empty.path())).code == errc::not_a_checkpoint);
  const fault file = fault_of(independent(at.path() / "encoder.safetensors"));
  CHECK(file.code == boost::system::errc::not_a_directory);
  CHECK(mentions(file, "expected a folder"));
}

TEST_CASE("source: independent files lie in sub-folders too, but for hidden ones and symlinks") {
  const temporary_folder at;
  for (const char* name : {"a", "sub/b", "sub/deeper/c", ".git/d", "sub/.cache/e"}) {
    const auto path = at.path() / (std::string(name) + ".safetensors");
    std::filesystem::create_directories(path.parent_path());
    write_file(path, tiny_tensors_text({path.stem().native()}));
  }
  std::filesystem::create_directory_symlink(at.path() / "sub", at.path() / "again");
  CHECK(names(independent(at.path())) == "a b c ");
}

TEST_CASE("source: an address that no extension knows is named, without credentials") {
  CHECK(fault_of(opened("https://host/x.safetensors?token=secret")).where() ==
        "https://host/x.safetensors");
  CHECK(fault_of(opened("s3://me:secret@host/x")).where() == "s3://");
  CHECK(fault_of(opened("HTTP://host/x")).cause().find("component remote") != std::string::npos);
}

TEST_CASE("source: independent files of a model in the cache, by its name and its address") {
  const temporary_folder at;
  const cached_repository cached(at.path(), "models--owner--two");
  cached.add("one.safetensors", tiny_tensors_text({"a"}));
  cached.add("sub/two.safetensors", tiny_tensors_text({"b"}));
  for (const char* name : {"owner/two", "owner/two@main", "hf://owner/two"}) {
    CAPTURE(name);
    CHECK(names(independent(name, at.path())) == "a b ");
  }
  CHECK(fault_of(independent("owner/other", at.path())).code == errc::source_not_found);
  CHECK(fault_of(independent("hf://owner/two/one.safetensors", at.path())).code ==
        boost::system::errc::not_a_directory);
}

TEST_CASE("source: independent files come from the store if the cache has a part of them") {
  const temporary_folder at;
  const cached_repository cached(at.path(), "models--owner--in-memory");
  cached.add("a.safetensors", tiny_tensors_text({"a"}));
  memory_script script;
  const auto store = std::make_shared<memory_store>(script);
  store->put("owner/a.safetensors", tiny_tensors_text({"a"}));
  store->put("owner/sub/b.safetensors", tiny_tensors_text({"b"}));
  const std::vector<extension> with = {extension(store)};
  source_options how(read_options(), with);
  how.independent_files = true;
  CHECK(names(resolve_source("owner/in-memory", how, cache_in(at.path()))) == "a b ");
  const found_source found = store->find("memory://owner", {});
  CHECK(names(open_found({found.folder, "", cached.snapshot().native()}, how)) == "a b ");
  cached.add("sub/b.safetensors", tiny_tensors_text({"c"}));
  CHECK(names(open_found({found.folder, "", cached.snapshot().native()}, how)) == "a c ");
}

TEST_CASE("source: an address of the hub is a model of the cache, or one file of it") {
  const temporary_folder at;
  const cached_repository cached(at.path(), "models--owner--name");
  cached.add("model-00001-of-00002.safetensors", tiny_tensors_text({"a"}));
  cached.add("model-00002-of-00002.safetensors", tiny_tensors_text({"b"}));
  const std::string address = "https://huggingface.co/owner/name";
  CHECK(names(opened(address, at.path())) == "a b ");
  CHECK(names(opened(address + "/tree/main", at.path())) == "a b ");
  CHECK(names(opened(address + "/resolve/main/model-00002-of-00002.safetensors", at.path())) ==
        "b ");
  CHECK(names(opened("hf://owner/name", at.path())) == "a b ");
  CHECK(names(opened("hf://owner/name@main/model-00001-of-00002.safetensors", at.path())) == "a ");
  CHECK(fault_of(opened(address + "/resolve/main/x.safetensors", at.path())).code ==
        errc::source_not_found);
  CHECK(fault_of(opened(address + "/resolve/main/../../../x", at.path())).code ==
        errc::path_outside_source);
  const fault absent = fault_of(opened("https://huggingface.co/owner/other", at.path()));
  CHECK(absent.code == errc::source_not_found);
  CHECK(mentions(absent, "https://huggingface.co/owner/other"));
}

TEST_CASE("source: a store may name a file or folder of this machine") {
  const temporary_folder at;
  const cached_repository cached(at.path(), "models--owner--name");
  cached.add("model.safetensors", tiny_tensors_text({"a", "b"}));
  const auto store = std::make_shared<local_store>();
  const std::vector<extension> with = {extension(store)};
  const source_options how(read_options(), with);
  const auto read = [&](const std::string& name) {
    return resolve_source(name, how, cache_in(at.path()));
  };
  store->path = cached.snapshot().native();
  CHECK(names(read("local://x")) == "a b ");
  source_options independent_files = how;
  independent_files.independent_files = true;
  CHECK(names(resolve_source("local://x", independent_files)) == "a b ");
  // The store knows whether the cache's revision is the hub's.
  CHECK(names(read("hf://owner/name")) == "a b ");
  CHECK(store->asked == 3);
  // The store is not asked for a name that is in the cache.
  CHECK(names(read("owner/name")) == "a b ");
  CHECK(store->asked == 3);
  store->path = (cached.snapshot() / "model.safetensors").native();
  CHECK(names(read("local://x")) == "a b ");
  const std::vector<std::string> files = {"local://x"};
  CHECK(names(open_files(files, how)) == "a b ");
  store->path = (at.path() / "gone").native();
  CHECK(!read("local://x").has_value());
}

TEST_CASE("source: what the cache has only in part is looked for in a store") {
  const temporary_folder at;
  const cached_repository cached(at.path(), "models--owner--name");
  cached.add("model.safetensors.index.json", index_text({{"a", "1.safetensors"}}));
  write_file(at.path() / "whole.safetensors", tiny_tensors_text({"c"}));
  const auto store = std::make_shared<local_store>();
  store->path = (at.path() / "whole.safetensors").native();
  const std::vector<extension> with = {extension(store)};
  CHECK(names(resolve_source("owner/name", source_options(read_options(), with),
                             cache_in(at.path()))) == "c ");
}
