// SPDX-License-Identifier: Apache-2.0
#include "catalog/hf_cache.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <map>
#include <optional>
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

namespace {

namespace fs = std::filesystem;

environment with(const std::map<std::string, std::string>& variables) {
  return [variables](const std::string& name) -> std::optional<std::string> {
    const auto at = variables.find(name);
    if (at == variables.end()) return std::nullopt;
    return at->second;
  };
}

std::string folder_with(const std::map<std::string, std::string>& variables) {
  const auto folder = cache_folder(with(variables));
  REQUIRE(folder.has_value());
  return *folder;
}

bool is_legal(std::string_view name) {
  const auto parsed = parse_model_name(name);
  if (!parsed) CHECK(parsed.error().code == errc::invalid_source_name);
  return parsed.has_value();
}

boost::system::error_code code_of(const fs::path& cache, std::string_view name) {
  const auto found = open_cached_model(cache.native(), *parse_model_name(name));
  return found ? boost::system::error_code{} : found.error().code;
}

}  // namespace

TEST_CASE("hf_cache: the first variable that is set names the cache") {
  CHECK(folder_with({{"HOME", "/h"}}) == "/h/.cache/huggingface/hub");
  CHECK(folder_with({{"HOME", "/h"}, {"XDG_CACHE_HOME", "/x"}}) == "/x/huggingface/hub");
  CHECK(folder_with({{"HF_HOME", "/f"}, {"XDG_CACHE_HOME", "/x"}}) == "/f/hub");
  CHECK(folder_with({{"HUGGINGFACE_HUB_CACHE", "/old"}, {"HF_HOME", "/f"}}) == "/old");
  CHECK(folder_with({{"HF_HUB_CACHE", "/new"}, {"HUGGINGFACE_HUB_CACHE", "/old"}}) == "/new");
  CHECK(folder_with({{"HF_HUB_CACHE", ""}, {"HF_HOME", "/f"}}) == "/f/hub");
}

TEST_CASE("hf_cache: ~ and variables inside the values are expanded") {
  CHECK(folder_with({{"HF_HUB_CACHE", "~/c"}, {"HOME", "/h"}}) == "/h/c");
  CHECK(folder_with({{"HF_HUB_CACHE", "~"}, {"HOME", "/h"}}) == "/h");
  CHECK(folder_with({{"HF_HUB_CACHE", "~other/c"}, {"HOME", "/h"}}) == "~other/c");
  CHECK(folder_with({{"HF_HUB_CACHE", "/a~/c"}, {"HOME", "/h"}}) == "/a~/c");
  CHECK(folder_with({{"HF_HOME", "$SCRATCH/hf"}, {"SCRATCH", "/s"}}) == "/s/hf/hub");
  CHECK(folder_with({{"HF_HOME", "/x/${USER}s/hf"}, {"USER", "me"}}) == "/x/mes/hf/hub");
  CHECK(folder_with({{"HF_HOME", "/$NONE/${NONE}/$/${/${}"}}) == "/$NONE/${NONE}/$/${/${}/hub");
}

TEST_CASE("hf_cache: without any variable there is no cache") {
  CHECK(cache_folder(with({})).error().code == errc::source_not_found);
}

TEST_CASE("hf_cache: a model's name is a repository and a revision") {
  const auto plain = parse_model_name("Qwen/Qwen3-8B");
  REQUIRE(plain.has_value());
  CHECK(plain->repository == "Qwen/Qwen3-8B");
  CHECK(plain->revision == "main");
  CHECK(repository_folder(*plain) == "models--Qwen--Qwen3-8B");
  CHECK(repository_folder(*parse_model_name("gpt2")) == "models--gpt2");
  CHECK(parse_model_name("gpt2@v1.0")->revision == "v1.0");
  CHECK(parse_model_name("a/b@refs/pr/1")->revision == "refs/pr/1");
  CHECK(parse_model_name("a/b@feature@2")->revision == "feature@2");
}

TEST_CASE("hf_cache: names that the hub would refuse are refused") {
  for (const std::string_view name :
       {"",     "/",      "a/",          "/a",   "a/b/c", "a b",    "-a",      "a-",
        ".a",   "a.",     "a/.b",        "a/b-", "a--b",  "a..b",   "a/b.git", "a/\xC3\xA9",
        "a\\b", "a:b",    "..",          "a/..", "../b",  "@main",  "a@",      "a/b@",
        "a@..", "a@../x", "a@x/../../y", "a@/x", "a@x/",  "a@x//y", "a@.",     "a@x\ny"}) {
    CAPTURE(name);
    CHECK_FALSE(is_legal(name));
  }
  CHECK(is_legal("a/" + std::string(96, 'b')));
  CHECK_FALSE(is_legal("a/" + std::string(97, 'b')));
  CHECK_FALSE(is_legal("a/b@" + std::string(256, 'c')));
  CHECK(is_legal("A_1/b-2.c_3"));
}

TEST_CASE("hf_cache: a commit is 40 lower-case hexadecimal digits") {
  CHECK(is_commit(cached_repository::commit));
  CHECK_FALSE(is_commit("0123456789ABCDEF0123456789abcdef01234567"));
  CHECK_FALSE(is_commit("0123456789abcdef"));
  CHECK_FALSE(is_commit("main"));
}

TEST_CASE("hf_cache: a revision leads to its snapshot") {
  const temporary_folder cache;
  const cached_repository model(cache.path(), "models--owner--name");
  model.set_ref("v1", cached_repository::commit);
  model.set_ref("refs/pr/1", cached_repository::commit);
  model.set_ref("padded", " " + std::string(cached_repository::commit) + "\r\n");
  for (const std::string name :
       {"owner/name", "owner/name@main", "owner/name@v1", "owner/name@refs/pr/1",
        "owner/name@padded", "owner/name@0123456789abcdef0123456789abcdef01234567"}) {
    CAPTURE(name);
    const auto found = open_cached_model(cache.path().native(), *parse_model_name(name));
    REQUIRE(found.has_value());
    CHECK(found->shown() == model.snapshot());
  }
}

TEST_CASE("hf_cache: an unknown revision is not found, and never guessed") {
  const temporary_folder cache;
  const cached_repository model(cache.path(), "models--owner--name");
  model.set_ref("broken", "not a commit");
  model.set_ref("empty", "");
  model.set_ref("gone", "ffffffffffffffffffffffffffffffffffffffff");
  CHECK(code_of(cache.path(), "owner/other") == errc::source_not_found);
  CHECK(code_of(cache.path() / "none", "owner/name") == errc::source_not_found);
  CHECK(code_of(cache.path(), "owner/name@none") == errc::source_not_found);
  CHECK(code_of(cache.path(), "owner/name@broken") == errc::source_not_found);
  CHECK(code_of(cache.path(), "owner/name@empty") == errc::source_not_found);
  CHECK(code_of(cache.path(), "owner/name@gone") == errc::source_not_found);
  CHECK(code_of(cache.path(), "owner/name@0123456") == errc::source_not_found);
  CHECK(code_of(cache.path(), "owner/name@ffffffffffffffffffffffffffffffffffffffff") ==
        errc::source_not_found);
}

TEST_CASE("hf_cache: a ref that is a symlink out of the repository is refused") {
  const temporary_folder cache;
  const cached_repository model(cache.path(), "models--owner--name");
  testing::write_file(cache.path() / "elsewhere", cached_repository::commit);
  fs::create_symlink("../../elsewhere", model.root() / "refs/out");
  CHECK(code_of(cache.path(), "owner/name@out") == errc::path_outside_source);
}

TEST_CASE("hf_cache: the cache may be a symlink to another disk") {
  const temporary_folder cache;
  const cached_repository model(cache.path() / "disk", "models--owner--name");
  fs::create_directory_symlink(cache.path() / "disk", cache.path() / "hub");
  CHECK_FALSE(code_of(cache.path() / "hub", "owner/name"));
}

TEST_CASE("hf_cache: an index in a sub-folder lists shards of its sub-folder") {
  const temporary_folder folder;
  const cached_repository cached(folder.path(), "models--owner--name");
  cached.add("sub/model.safetensors.index.json", index_text({{"a", "s.safetensors"}}));
  cached.add("s.safetensors", tiny_tensors_text({"a"}));
  const auto opened = [&] {
    return resolve_source("hf://owner/name/sub/model.safetensors.index.json", strictness::strict,
                          with({{"HF_HUB_CACHE", folder.path().native()}}));
  };
  const auto missing = opened();
  REQUIRE_FALSE(missing.has_value());
  CHECK(missing.error().code == errc::incomplete_series);
  cached.add("sub/s.safetensors", tiny_tensors_text({"a"}));
  const auto found = opened();
  REQUIRE(found.has_value());
  CHECK(found->catalog.files[0].path == cached.snapshot() / "sub/s.safetensors");
}
