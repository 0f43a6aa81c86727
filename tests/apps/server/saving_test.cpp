// SPDX-License-Identifier: Apache-2.0
#include "saving.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <stdexcept>

#include "support/safetensors_text.hpp"
#include "support/temporary_folder.hpp"

using namespace ringload::server;
using ringload::testing::temporary_folder;
using ringload::testing::write_file;

namespace fs = std::filesystem;

TEST_CASE("allowed_targets: files in folders beneath a root, whose names say a format") {
  const temporary_folder in;
  write_file(in.path() / "root/deep/a", "a");
  write_file(in.path() / "root2/b", "b");
  fs::create_symlink(in.path() / "root2", in.path() / "root/out");
  const allowed_targets allowed({(in.path() / "root").string()});
  CHECK(allowed.any());
  CHECK(allowed.resolve("x.zt") == (in.path() / "root/x.zt").string());
  CHECK(allowed.resolve("deep/../deep/x.safetensors") ==
        (in.path() / "root/deep/x.safetensors").string());
  CHECK(allowed.resolve((in.path() / "root/x.zt").string()) == (in.path() / "root/x.zt").string());
  for (const char* name : {"", "x", "x.bin", ".zt", ".x.zt", "none/x.zt", "../x.zt",
                           "../root2/x.zt", "out/x.zt", "/etc/x.zt", "deep/a/x.zt"}) {
    CAPTURE(name);
    CHECK_FALSE(allowed.resolve(name));
  }
  CHECK_FALSE(allowed.resolve(std::string_view("a\0b.zt", 6)));
}

TEST_CASE("allowed_targets: without a root nothing is allowed") {
  const allowed_targets none({});
  CHECK_FALSE(none.any());
  CHECK_FALSE(none.resolve("/tmp/x.zt"));
}

TEST_CASE("save_request: a path, and what .zt can have") {
  const save_request all = parse_save_wish(R"({"path":"x.zt","zstd":22,"digest":"crc32c"})");
  CHECK(all.path == "x.zt");
  CHECK(all.zstd_level == 22);
  CHECK(all.digest == ringload::digest_algorithm::crc32c);
  CHECK(parse_save_wish(R"({"path":"x.safetensors"})").zstd_level == 0);
  for (const char* body :
       {"", "{}", "[]", R"({"path":1})", R"({"path":"x.zt","zstd":0})",
        R"({"path":"x.zt","zstd":23})", R"({"path":"x.zt","digest":"sha256"})",
        R"({"path":"x.safetensors","zstd":3})", R"({"path":"x.zt","path":"y.zt"})"}) {
    CAPTURE(body);
    CHECK_THROWS_AS(parse_save_wish(body), std::invalid_argument);
  }
  CHECK_THROWS_WITH(parse_save_wish(R"({"path":"x.zt","level":3})"), "unknown key \"level\"");
}

TEST_CASE("save_request: a file's name has a known ending, and at most 255 bytes") {
  const auto body_for = [](std::size_t name_bytes) {
    return R"({"path":"deep/)" + std::string(name_bytes - 3, 'n') + ".zt\"}";
  };
  CHECK(parse_save_wish(body_for(255)).path.size() == 260);
  CHECK_THROWS_WITH(parse_save_wish(body_for(256)),
                    "\"path\": the file's name has 256 bytes, the limit is 255");
  for (const char* body : {R"({"path":"x.bin"})", R"({"path":"x.zt/y"})", R"({"path":""})"}) {
    CAPTURE(body);
    CHECK_THROWS_WITH(parse_save_wish(body), "\"path\" must end with .zt or .safetensors");
  }
}
