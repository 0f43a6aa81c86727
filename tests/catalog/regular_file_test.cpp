// SPDX-License-Identifier: Apache-2.0
#include "catalog/source_file.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "catalog/read_entries.hpp"
#include "support/cold_file.hpp"
#include "support/safetensors_text.hpp"
#include "support/skip.hpp"
#include "support/temporary_folder.hpp"

using namespace ringload;
using ringload::testing::safetensors_prefix;
using ringload::testing::temporary_folder;
using ringload::testing::write_file;

namespace {

namespace fs = std::filesystem;

result<source_file> opened(const fs::path& path) {
  return as_regular_file(unique_fd(::open(path.c_str(), open_unknown_flags)));
}

boost::system::error_code code_of(std::string_view content) {
  const temporary_folder folder;
  write_file(folder.path() / "f", content);
  const auto entries = read_entries(*opened(folder.path() / "f"), "f", strictness::strict);
  return entries ? boost::system::error_code{} : entries.error().code;
}

}  // namespace

TEST_CASE("regular_file: has the file's size, and a blocking descriptor") {
  const temporary_folder folder;
  write_file(folder.path() / "f", "12345");
  const auto file = opened(folder.path() / "f");
  REQUIRE(file.has_value());
  CHECK(file->bytes == 5);
  CHECK((::fcntl(file->fd.get(), F_GETFL) & O_NONBLOCK) == 0);
  CHECK((::fcntl(file->fd.get(), F_GETFD) & FD_CLOEXEC) != 0);
}

TEST_CASE("regular_file: refuses folders, FIFOs, devices and sockets") {
  const temporary_folder folder;
  REQUIRE(::mkfifo((folder.path() / "fifo").c_str(), 0600) == 0);
  CHECK(opened(folder.path()).error().code == errc::not_a_regular_file);
  CHECK(opened(folder.path() / "fifo").error().code == errc::not_a_regular_file);
  CHECK(opened("/dev/null").error().code == errc::not_a_regular_file);
  int pair[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
  const unique_fd other(pair[1]);
  CHECK(as_regular_file(unique_fd(pair[0])).error().cause() ==
        "this is a socket and not a regular file");
}

TEST_CASE("regular_file: reads exactly what was asked for, or says where the file ends") {
  const temporary_folder folder;
  write_file(folder.path() / "f", "0123456789");
  const auto file = opened(folder.path() / "f");
  const auto middle = read_bytes(*file, 3, 4);
  REQUIRE(middle.has_value());
  CHECK(std::string(reinterpret_cast<const char*>(middle->data()), 4) == "3456");
  CHECK(read_bytes(*file, 10, 0)->empty());
  CHECK(read_bytes(*file, 3, 8).error().code == errc::truncated_file);
  CHECK(read_bytes(*file, 11, 0).error().code == errc::truncated_file);
  CHECK(read_bytes(*file, UINT64_MAX, 2).error().code == errc::truncated_file);

  REQUIRE(::truncate((folder.path() / "f").c_str(), 5) == 0);
  const auto cut = read_bytes(*file, 3, 4);
  CHECK(cut.error().code == errc::truncated_file);
  CHECK(cut.error().where() == "byte 5");
}

TEST_CASE("regular_file: the first bytes of a distant file are read once") {
  const temporary_folder folder;
  const fs::path path = folder.path() / "f";
  const std::string old_bytes(100'000, 'o');
  write_file(path, old_bytes);
  header_reader reader;
  second_read_counts counts;
  auto file = opened(path);
  file->is_distant = true;
  read_header_with({&reader, &counts}, *file);
  testing::make_cold(path);
  read_first_bytes(*file);
  if (!file->was_read_direct) {
    testing::skip("there are no direct reads of files here");
    return;
  }
  CHECK(file->first_bytes.size() == 64 * 1024);
  const auto first_of = [&](std::uint64_t offset, std::size_t bytes) {
    return static_cast<char>(read_bytes(*file, offset, bytes)->front());
  };
  write_file(path, std::string(old_bytes.size(), 'n'));
  CHECK(first_of(0, 8) == 'o');
  CHECK(first_of(8, 64 * 1024 - 8) == 'o');
  CHECK(first_of(8, 64 * 1024 - 7) == 'n');
  CHECK(first_of(64 * 1024, 1) == 'n');
  CHECK(read_bytes(*file, UINT64_MAX, 2).error().code == errc::truncated_file);
}

TEST_CASE("regular_file: a header is checked against the file before it is read") {
  CHECK(code_of("") == errc::header_too_small);
  CHECK(code_of("1234567") == errc::header_too_small);
  CHECK(code_of(safetensors_prefix(60)) == errc::header_outside_file);
  CHECK(code_of(safetensors_prefix(UINT64_MAX)) == errc::header_too_large);
  CHECK(code_of(safetensors_prefix(100'000'000) + "{}") == errc::header_outside_file);
  CHECK_FALSE(code_of(testing::safetensors_text("{}")));
}

TEST_CASE("regular_file: a header of 100,000,000 bytes in a sparse file is read and refused") {
  const temporary_folder folder;
  const fs::path path = folder.path() / "f";
  write_file(path, safetensors_prefix(100'000'000) + "{}");
  fs::resize_file(path, 100'000'008);
  // NUL bytes after the object are not padding.
  CHECK(read_entries(*opened(path), "f", strictness::strict).error().code ==
        errc::malformed_header);
}

TEST_CASE("regular_file: a git-lfs pointer has its own message") {
  const temporary_folder folder;
  write_file(folder.path() / "f",
             "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n");
  const auto file = opened(folder.path() / "f");
  const auto refused = read_entries(*file, "f", strictness::strict);
  CHECK(refused.error().code == errc::not_a_checkpoint);
  CHECK(refused.error().cause().find("git-lfs pointer") != std::string::npos);
  CHECK(read_index_text(*file).error().code == errc::not_a_checkpoint);
}

TEST_CASE("regular_file: a file of another format is refused by its name") {
  const temporary_folder folder;
  const auto refusal = [&](std::string_view name, std::string_view content) {
    write_file(folder.path() / name, content);
    const auto file = opened(folder.path() / name);
    const auto refused = read_entries(*file, name, strictness::strict);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().code == errc::not_a_checkpoint);
    return message_of(refused.error());
  };
  CHECK(refusal("f", "\x28\xB5\x2F\xFD") ==
        "this is a file compressed with zstd; such files cannot be loaded");
  // A web page that a server sent instead of the file.
  CHECK(refusal("model.safetensors", "<!DOCTYPE html>") ==
        "this is a web page; such files cannot be loaded");
  CHECK(refusal("model.tar", "") ==
        "the name is that of a tar archive, but the first bytes are not");

  write_file(folder.path() / "x.index.json", "PK\x03\x04");
  const auto index = read_index_text(*opened(folder.path() / "x.index.json"));
  CHECK(message_of(index.error()) ==
        "this is a zip archive, as PyTorch (.pt) and NumPy (.npz) write them; expected the "
        "JSON text of a shard index");
}

TEST_CASE("regular_file: a checkpoint may have any name") {
  const temporary_folder folder;
  for (const auto* name : {"weights.pt", "blob", "model.gguf"}) {
    write_file(folder.path() / name, testing::safetensors_text("{}"));
    CHECK(read_entries(*opened(folder.path() / name), name, strictness::strict).has_value());
  }
}

TEST_CASE("regular_file: an index of more than 100,000,000 bytes is not read") {
  const temporary_folder folder;
  const fs::path path = folder.path() / "f";
  write_file(path, "{}");
  fs::resize_file(path, 100'000'001);
  CHECK(read_index_text(*opened(path)).error().code == errc::malformed_index);
}
