// SPDX-License-Identifier: Apache-2.0

// Paths in a model's files are not trusted. No file outside of the model's folder is opened, by any
// form of path.

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "catalog/resolve_source.hpp"
#include "support/checkpoint_folder.hpp"
#include "support/temporary_folder.hpp"

using namespace ringload;
using ringload::testing::cached_repository;
using ringload::testing::index_text;
using ringload::testing::temporary_folder;
using ringload::testing::tiny_tensors_text;
using ringload::testing::write_file;

namespace {

namespace fs = std::filesystem;

boost::system::error_code code_of(const fs::path& source) {
  const auto found = resolve_source(source.native(), strictness::strict);
  return found ? boost::system::error_code{} : found.error().code;
}

// A model whose only shard is `shard`, and a file next to the folder that must not be opened.
struct model {
  explicit model(std::string_view shard) {
    write_file(at.path() / "outside.safetensors", tiny_tensors_text({"a"}));
    write_file(folder / "model.safetensors.index.json", index_text({{"a", shard}}));
  }

  temporary_folder at;
  fs::path folder = at.path() / "model";
};

}  // namespace

TEST_CASE("untrusted paths: an index cannot name files outside of its folder") {
  CHECK(code_of(model("../outside.safetensors").folder) == errc::path_outside_source);
  CHECK(code_of(model("x/../../outside.safetensors").folder) == errc::path_outside_source);
  CHECK(code_of(model("/etc/x.safetensors").folder) == errc::path_outside_source);
}

TEST_CASE("untrusted paths: a shard cannot be a symlink out of its folder") {
  const model absolute("s.safetensors");
  fs::create_symlink(absolute.at.path() / "outside.safetensors", absolute.folder / "s.safetensors");
  CHECK(code_of(absolute.folder) == errc::path_outside_source);
  CHECK(code_of(absolute.folder / "model.safetensors.index.json") == errc::path_outside_source);

  const model relative("s.safetensors");
  fs::create_symlink("../outside.safetensors", relative.folder / "s.safetensors");
  CHECK(code_of(relative.folder) == errc::path_outside_source);

  const model by_folder("sub/outside.safetensors");
  fs::create_directory_symlink("..", by_folder.folder / "sub");
  CHECK(code_of(by_folder.folder) == errc::path_outside_source);
}

TEST_CASE("untrusted paths: a symlink that stays inside is followed") {
  const model inside("s.safetensors");
  write_file(inside.folder / "files/real", tiny_tensors_text({"a"}));
  fs::create_symlink("files/real", inside.folder / "s.safetensors");
  CHECK_FALSE(code_of(inside.folder));
}

TEST_CASE("untrusted paths: the only file of a folder cannot lead out of it either") {
  const model none("unused.safetensors");
  fs::remove(none.folder / "model.safetensors.index.json");
  fs::create_symlink("../outside.safetensors", none.folder / "model.safetensors");
  CHECK(code_of(none.folder) == errc::path_outside_source);
  // If the user names the symlink itself, its target is opened.
  CHECK_FALSE(code_of(none.folder / "model.safetensors"));
}

TEST_CASE("untrusted paths: magic links are not followed") {
  const model magic("s.safetensors");
  fs::create_symlink("/proc/self/exe", magic.folder / "s.safetensors");
  CHECK(code_of(magic.folder) == errc::path_outside_source);

  const model root("sub/etc/x.safetensors");
  fs::create_directory_symlink("/proc/self/root", root.folder / "sub");
  CHECK(code_of(root.folder) == errc::path_outside_source);
}

TEST_CASE("untrusted paths: a shard that is no regular file is refused at once") {
  const model fifo("s.safetensors");
  REQUIRE(::mkfifo((fifo.folder / "s.safetensors").c_str(), 0600) == 0);
  CHECK(code_of(fifo.folder) == errc::not_a_regular_file);

  const model socket("s.safetensors");
  REQUIRE(::mknod((socket.folder / "s.safetensors").c_str(), S_IFSOCK | 0600, 0) == 0);
  CHECK(code_of(socket.folder) == errc::not_a_regular_file);

  const model folder("s.safetensors");
  fs::create_directory(folder.folder / "s.safetensors");
  CHECK(code_of(folder.folder) == errc::not_a_regular_file);
}

TEST_CASE("untrusted paths: a snapshot reaches its own blobs and no other repository's") {
  const temporary_folder at;
  const cached_repository other(at.path(), "models--other");
  other.add("model.safetensors", tiny_tensors_text({"a"}));
  const cached_repository cached(at.path(), "models--mine");
  fs::create_symlink("../../../models--other/snapshots/" + std::string(cached_repository::commit) +
                         "/model.safetensors",
                     cached.snapshot() / "model.safetensors");
  CHECK(code_of(cached.snapshot()) == errc::path_outside_source);
}

TEST_CASE("untrusted paths: a folder that only resembles a snapshot has itself as root") {
  const temporary_folder at;
  const fs::path folder = at.path() / "models--x/snapshots/main";
  write_file(at.path() / "models--x/blobs/b", tiny_tensors_text({"a"}));
  fs::create_directories(folder);
  fs::create_symlink("../../blobs/b", folder / "model.safetensors");
  CHECK(code_of(folder) == errc::path_outside_source);
}

TEST_CASE("untrusted paths: a shard inside of a file is not there") {
  const model below("s.safetensors/x.safetensors");
  write_file(below.folder / "s.safetensors", tiny_tensors_text({"a"}));
  CHECK(code_of(below.folder) == errc::incomplete_series);
}
