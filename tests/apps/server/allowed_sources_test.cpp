// SPDX-License-Identifier: Apache-2.0
#include "allowed_sources.hpp"

#include <doctest/doctest.h>

#include <filesystem>

#include "support/safetensors_text.hpp"
#include "support/temporary_folder.hpp"

using namespace ringload::server;
using ringload::testing::temporary_folder;
using ringload::testing::write_file;

namespace fs = std::filesystem;

TEST_CASE("allowed_sources: what is beneath a root, by absolute and relative path") {
  const temporary_folder in;
  write_file(in.path() / "root/deep/a", "a");
  const allowed_sources allowed({(in.path() / "root").string()}, false);
  const std::string real = (in.path() / "root/deep/a").string();
  CHECK(allowed.resolve("deep/a") == real);
  CHECK(allowed.resolve("deep/../deep//a") == real);
  CHECK(allowed.resolve(real) == real);
  CHECK(allowed.resolve("deep") == (in.path() / "root/deep").string());
}

TEST_CASE("allowed_sources: refuses what is outside, and what does not exist") {
  const temporary_folder in;
  write_file(in.path() / "root/a", "a");
  write_file(in.path() / "root2/b", "b");
  const allowed_sources allowed({(in.path() / "root").string()}, false);
  CHECK_FALSE(allowed.resolve(""));
  CHECK_FALSE(allowed.resolve("missing"));
  CHECK_FALSE(allowed.resolve("../root2/b"));
  CHECK_FALSE(allowed.resolve((in.path() / "root2/b").string()));
  CHECK_FALSE(allowed.resolve("/etc/passwd"));
  CHECK_FALSE(allowed.resolve(std::string_view("a\0b", 3)));
  CHECK_FALSE(allowed.resolve("owner/model"));
}

TEST_CASE("allowed_sources: a symlink counts for what it points at") {
  const temporary_folder in;
  write_file(in.path() / "root/a", "a");
  write_file(in.path() / "other/b", "b");
  fs::create_symlink("a", in.path() / "root/inside");
  fs::create_symlink("../other/b", in.path() / "root/outside");
  const allowed_sources allowed({(in.path() / "root").string()}, false);
  CHECK(allowed.resolve("inside") == (in.path() / "root/a").string());
  CHECK_FALSE(allowed.resolve("outside"));
}

TEST_CASE("allowed_sources: a hub name is two plain words, and only if allowed") {
  for (const char* name : {"owner/model", "a-b/c_d.e", "owner/model@v1.0"}) {
    CHECK(is_hub_name(name));
    CHECK(allowed_sources({}, true).resolve(name) == name);
    CHECK_FALSE(allowed_sources({}, false).resolve(name));
  }
  for (const char* name : {"model", "/model", "owner/", "../model", "owner/..", "a/b/c", "a/b@",
                           "a/b@../c", "a b/c", ""}) {
    CAPTURE(name);
    CHECK_FALSE(is_hub_name(name));
    CHECK_FALSE(allowed_sources({}, true).resolve(name));
  }
}

TEST_CASE("allowed_sources: addresses of the hosts that are named, and of no other") {
  const allowed_sources allowed({}, true, {"Models.Example", "::1"});
  for (const char* good :
       {"https://models.example/x.safetensors", "http://MODELS.example:8080/x", "https://[::1]:1/x",
        "https://models.example?x", "https://models.example"}) {
    CAPTURE(good);
    CHECK(allowed.resolve(good) == good);
  }
  for (const char* bad :
       {"https://example/x", "https://models.example.evil/x", "https://evil@models.example/x",
        "https://models.example@evil/x", "ftp://models.example/x", "https:models.example/x",
        "https://evil/models.example", "https://evil?models.example", "https://[::1/x",
        "https://models.example\\@evil/x", "hf://models.example/x", "https:///models.example"}) {
    CAPTURE(bad);
    CHECK_FALSE(allowed.resolve(bad));
  }
  CHECK_FALSE(allowed_sources({}, true).resolve("https://models.example/x"));
}
