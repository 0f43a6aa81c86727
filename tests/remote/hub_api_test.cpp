// SPDX-License-Identifier: Apache-2.0
#include "remote/hub/hub_api.hpp"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "remote/http/percent_encoding.hpp"

using namespace ringload;
using namespace ringload::remote_http;

namespace {

constexpr std::string_view listed_commit = "0123456789abcdef0123456789abcdef01234567";
constexpr std::string_view listed_blob = "89abcdef0123456789abcdef0123456789abcdef";

std::string listing_json(std::string_view siblings) {
  return R"({"id":"a/b","tags":["x",{"y":null}],"sha":")" + std::string(listed_commit) +
         R"(","siblings":[)" + std::string(siblings) + R"(],"private":false})";
}

std::string refusal_of(std::string_view json) {
  const auto found = parse_hub_listing(json);
  if (found) return "accepted";
  CHECK(found.error().code == errc::malformed_answer);
  return message_of(found.error());
}

bool says(const std::string& text, std::string_view part) { return text.find(part) != text.npos; }

fault refused_with(unsigned status, std::string_view code, bool had_token) {
  return hub_fault({status, code, had_token}, "https://huggingface.co", {"owner/model", "v2"});
}

}  // namespace

TEST_CASE("percent: all bytes but letters, digits and -._~ are encoded") {
  CHECK(percent_encoded("aZ09-._~") == "aZ09-._~");
  CHECK(percent_encoded("a/b c+\xc3\xa9") == "a%2Fb%20c%2B%C3%A9");
  CHECK(percent_encoded_path("a/b c") == "a/b%20c");
  CHECK(percent_encoded(std::string(1, '\0')) == "%00");
}

TEST_CASE("percent: what is encoded decodes to itself, and half an escape is refused") {
  std::string all;
  for (int each = 0; each < 256; ++each) all += static_cast<char>(each);
  CHECK(percent_decoded(percent_encoded(all)).value() == all);
  CHECK(percent_decoded("%2f%2F").value() == "//");
  for (const std::string_view bad : {"%", "%2", "a%", "%g0", "%0g", "%%41"}) {
    CHECK(!percent_decoded(bad).has_value());
  }
}

TEST_CASE("hub_api: addresses of the API and of files") {
  CHECK(hub_listing_address("https://huggingface.co", {"a/b", "main"}) ==
        "https://huggingface.co/api/models/a/b/revision/main?blobs=true");
  CHECK(hub_listing_address("http://127.0.0.1:8080", {"a/b", "refs/pr/1"}) ==
        "http://127.0.0.1:8080/api/models/a/b/revision/refs%2Fpr%2F1?blobs=true");
  CHECK(hub_file_address("https://huggingface.co", "a/b", "main", "unet/x y.safetensors") ==
        "https://huggingface.co/a/b/resolve/main/unet/x%20y.safetensors");
}

TEST_CASE("hub_api: a listing is a commit and files with their sizes and digests") {
  const std::string sha256(64, 'c');
  const std::string json = listing_json(
      R"({"rfilename":"model.safetensors","size":4096,"blobId":")" + std::string(listed_blob) +
      R"(","lfs":{"sha256":")" + sha256 + R"(","size":4096,"pointerSize":130}},)" +
      R"({"rfilename":"config.json","size":12,"blobId":")" + std::string(listed_blob) + R"("},)" +
      R"({"rfilename":"a/plain.bin","size":null})");
  const auto found = parse_hub_listing(json);
  REQUIRE(found.has_value());
  CHECK(found->commit == listed_commit);
  REQUIRE(found->files.size() == 3);
  CHECK(found->files[0].name == "a/plain.bin");
  CHECK(!found->files[0].bytes.has_value());
  CHECK(found->files[0].digest.empty());
  REQUIRE(found->find("config.json") != nullptr);
  CHECK(found->find("config.json")->digest == listed_blob);
  CHECK(found->find("model.safetensors")->digest == sha256);
  CHECK(found->find("model.safetensors")->bytes == 4096);
  CHECK(found->find("model") == nullptr);
}

TEST_CASE("hub_api: a listing that breaks the API's promises is refused") {
  CHECK(parse_hub_listing(listing_json("")).has_value());
  CHECK(says(refusal_of(""), "byte 0"));
  CHECK(refusal_of("[]") != "accepted");
  CHECK(says(refusal_of(R"({"siblings":[]})"), "missing key 'sha'"));
  CHECK(says(refusal_of(R"({"sha":"0123456789abcdef0123456789abcdef01234567"})"), "siblings"));
  CHECK(says(refusal_of(R"({"sha":"main","siblings":[]})"), "not a commit"));
  CHECK(says(refusal_of(listing_json("{}")), "rfilename"));
  CHECK(says(refusal_of(listing_json(R"({"rfilename":"x"},{"rfilename":"x"})")), "duplicate"));
  CHECK(says(refusal_of(listing_json(R"({"rfilename":"x","lfs":{"sha256":"short"}})")), "sha256"));
  CHECK(says(refusal_of(listing_json(R"({"rfilename":"x","size":-1})")), "whole number"));
  CHECK(says(refusal_of(listing_json("") + "{}"), "byte"));
  CHECK(says(refusal_of("\xff"), "UTF-8"));
}

TEST_CASE("hub_api: no file of a listing leaves the model's folder") {
  for (const std::string_view name :
       {"../x", "a/../x", "/etc/passwd", "a//b", "a/", ".", "..", "a/.", "", "a\\u0000b", "\\n"}) {
    CHECK(refusal_of(listing_json(R"({"rfilename":")" + std::string(name) + R"("})")) !=
          "accepted");
  }
  CHECK(refusal_of(listing_json(R"({"rfilename":"..x/y..z/.w"})")) == "accepted");
}

TEST_CASE("hub_api: a refusal says what can be done") {
  const fault gated = refused_with(403, "GatedRepo", false);
  CHECK(gated.code == errc::access_denied);
  CHECK(says(message_of(gated), "https://huggingface.co/owner/model"));
  CHECK(says(message_of(gated), "request access"));
  CHECK(says(message_of(gated), "token"));
  CHECK(says(message_of(refused_with(403, "GatedRepo", true)), "this token's account"));

  const fault hidden = refused_with(401, "RepoNotFound", false);
  CHECK(hidden.code == errc::access_denied);
  CHECK(says(message_of(hidden), "private"));
  CHECK(refused_with(404, "RepoNotFound", false).code == errc::source_not_found);
  CHECK(says(message_of(refused_with(401, "", true)), "not valid"));

  const fault revision = refused_with(404, "RevisionNotFound", true);
  CHECK(revision.code == errc::source_not_found);
  CHECK(says(message_of(revision), "'v2'"));
  CHECK(refused_with(404, "EntryNotFound", true).code == errc::source_not_found);
  CHECK(refused_with(503, "", true).code == errc::remote_failed);
  CHECK(says(message_of(refused_with(503, "", true)), "503"));
}
