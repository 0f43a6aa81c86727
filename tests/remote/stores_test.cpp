// SPDX-License-Identifier: Apache-2.0

// The stores for the hub and S3, with a client that has only the objects of the test.

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <string_view>
#include <vector>

#include "remote/hub_store.hpp"
#include "remote/s3/s3_signature.hpp"
#include "remote/s3_store.hpp"
#include "remote/scripted_client.hpp"
#include "support/temporary_folder.hpp"

using namespace ringload;
using ringload::remote_http::make_hub_store;
using ringload::remote_http::make_s3_store;
using ringload::testing::memory_source;
using ringload::testing::read_text;
using ringload::testing::scripted_client;
using ringload::testing::temporary_folder;

namespace {

namespace fs = std::filesystem;

const std::string hub_commit(40, 'c');
constexpr std::string_view hub_token = "hf_verysecret";
constexpr std::string_view s3_secret = "topsecretkey";
const std::string hub_model_address =
    "https://huggingface.co/api/models/owner/model/revision/main?blobs=true";

std::string file_json(const std::string& name, const std::string& content) {
  return R"({"rfilename":")" + name + R"(","size":)" + std::to_string(content.size()) +
         R"(,"lfs":{"sha256":")" + remote_http::sha256_hex(content) + R"("}})";
}

// A client for owner/model, which has two files.
std::shared_ptr<scripted_client> hub_client() {
  auto out = std::make_shared<scripted_client>();
  out->responses[hub_model_address].body = R"({"sha":")" + hub_commit + R"(","siblings":[)" +
                                           file_json("model.safetensors", "weights") + "," +
                                           file_json("config.json", "{}") + "]}";
  out->objects["https://huggingface.co/owner/model/resolve/" + hub_commit + "/model.safetensors"] =
      std::make_shared<memory_source>("weights");
  return out;
}

hub_options hub_without_cache() {
  hub_options out;
  out.cache = hub_cache::off;
  return out;
}

// The text of the error that the bytes have another digest than the hub states, or an empty string.
std::string refusal(const byte_source& file) {
  try {
    const std::string tag = file.identity();  // CHECK would catch the exception.
    CHECK(tag.empty());
  } catch (const error& e) {
    CHECK(e.code() == errc::wrong_digest);
    CHECK(e.place().empty());  // The caller adds the name of the file.
    return e.what();
  }
  return "";
}

// The text of the error, or "nothing".
std::string thrown_by(byte_store& store, std::string_view name, boost::system::error_code code) {
  try {
    const found_source found = store.find(name, {});
    if (found.folder) static_cast<void>(found.folder->names({}));
  } catch (const error& e) {
    CHECK(e.code() == code);
    return e.what();
  }
  return "nothing";
}

bool holds(const std::string& text, std::string_view part) { return text.find(part) != text.npos; }

// A snapshot as huggingface_hub leaves it, with one file.
void cache_model(const fs::path& cache, const std::string& commit) {
  const fs::path repository = cache / "models--owner--model";
  fs::create_directories(repository / "blobs");
  fs::create_directories(repository / "refs");
  fs::create_directories(repository / "snapshots" / commit);
  std::ofstream(repository / "blobs/1") << "weights";
  std::ofstream(repository / "refs/main") << commit;
  fs::create_symlink("../../blobs/1", repository / "snapshots" / commit / "model.safetensors");
}

s3_options s3_of(std::string endpoint) {
  s3_options out;
  out.endpoint = std::move(endpoint);
  out.access_key_id = "AKIDEXAMPLE";
  out.secret_access_key = s3_secret;
  return out;
}

constexpr std::string_view s3_list = "delimiter=%2F&encoding-type=url&list-type=2&prefix=";

std::string s3_page_xml(std::string_view contents) {
  return "<ListBucketResult>" + std::string(contents) + "</ListBucketResult>";
}

std::string s3_object_xml(const std::string& key) {
  return "<Contents><Key>" + key + "</Key><ETag>\"e\"</ETag><Size>7</Size></Contents>";
}

}  // namespace

TEST_CASE("hub_store: its names are hf://, pages of the hub, and owner/model") {
  const auto store = make_hub_store(hub_client(), hub_without_cache(), false);
  CHECK(store->has_name("hf://owner/model"));
  CHECK(store->has_name("https://huggingface.co/owner/model"));
  CHECK(store->has_name("owner/model@v1"));
  for (const char* page : {"http://huggingface.co/o/m", "https://hf.co/o/m", "HTTP://HF.co/o/m",
                           "https://www.huggingface.co/o/m", "HF://o/m"}) {
    CAPTURE(page);
    CHECK(store->has_name(page));
  }
  CHECK(!store->has_name("https://hf.co.example/o/m"));
  CHECK(!store->has_name("model.safetensors"));
  CHECK(!store->has_name("./owner/model"));
  CHECK(!store->has_name("https://example.org/owner/model"));
  CHECK(!store->has_name("s3://owner/model"));
}

TEST_CASE("hub_store: a model is a folder of the files that its commit has") {
  const auto client = hub_client();
  const auto store = make_hub_store(client, hub_without_cache(), false);
  const found_source found = store->find("hf://owner/model", {});
  REQUIRE(found.folder != nullptr);
  CHECK(found.file.empty());
  CHECK(found.folder->names({}) == std::vector<std::string>{"config.json", "model.safetensors"});
  CHECK(found.folder->path_of("x") == "hf://owner/model/x");
  const auto file = found.folder->open("model.safetensors", {});
  CHECK(read_text(*file, 0, 7) == "weights");
  CHECK(store->find("hf://owner/model/model.safetensors", {}).file == "model.safetensors");
  CHECK(store->find("owner/model", {}).folder != nullptr);
  CHECK_THROWS_AS(found.folder->open("absent.safetensors", {}), error);
}

TEST_CASE("hub_store: files that are expected are opened once, together") {
  const auto client = hub_client();
  const found_source found =
      make_hub_store(client, hub_without_cache(), false)->find("hf://owner/model", {});
  const std::vector<std::string> wanted = {"model.safetensors", "absent"};
  found.folder->expect(wanted, {});
  const std::size_t before = client->requests.size();
  CHECK(found.folder->open("model.safetensors", {})->bytes() == 7);
  CHECK(client->requests.size() == before);
}

TEST_CASE("hub_store: a token goes with requests to the hub, and into no message") {
  const auto client = hub_client();
  hub_options how = hub_without_cache();
  how.token = hub_token;
  how.endpoint += "/";
  const auto store = make_hub_store(client, how, false);
  static_cast<void>(store->find("hf://owner/model", {}));
  CHECK(client->last_signature() == "Authorization: Bearer hf_verysecret\n");
  for (const unsigned status : {401U, 403U, 404U, 500U}) {
    client->responses[hub_model_address].status = status;
    client->responses[hub_model_address].body = "hf_verysecret";
    const auto code = status == 404   ? errc::source_not_found
                      : status == 500 ? errc::remote_failed
                                      : errc::access_denied;
    CHECK(!holds(thrown_by(*store, "hf://owner/model", code), hub_token));
  }
  how.token = "a\r\nHost: b";
  CHECK_THROWS_AS(make_hub_store(client, how, false), error);
}

TEST_CASE("hub_store: a gated model says where access is asked for") {
  const auto client = hub_client();
  auto& response = client->responses[hub_model_address];
  response.status = 403;
  response.fields = {{"x-error-code", "GatedRepo"}};
  const auto store = make_hub_store(client, hub_without_cache(), false);
  const std::string text = thrown_by(*store, "hf://owner/model", errc::access_denied);
  CHECK(holds(text, "https://huggingface.co/owner/model"));
  CHECK(holds(text, "gated"));
}

TEST_CASE("hub_store: a gated model that is listed says so where a file of it is opened") {
  const auto client = hub_client();
  client->objects.clear();
  client->responses["https://huggingface.co/owner/model/resolve/" + hub_commit +
                    "/model.safetensors"] = {401, "", {{"x-error-code", "GatedRepo"}}};
  const auto store = make_hub_store(client, hub_without_cache(), false);
  const found_source found = store->find("hf://owner/model", {});
  try {
    static_cast<void>(found.folder->open("model.safetensors", {}));
    FAIL("it was opened");
  } catch (const error& e) {
    CHECK(e.code() == errc::access_denied);
    CHECK(holds(e.what(), "the model is gated"));
  }
}

TEST_CASE("hub_store: a hub that leads to another host is not followed, and that host is named") {
  const auto client = hub_client();
  const auto store = make_hub_store(client, hub_without_cache(), false);
  client->responses[hub_model_address] = {
      302, "", {{"location", "https://mirror.example:8443/api?signature=secret"}}};
  const std::string text = thrown_by(*store, "hf://owner/model", errc::remote_failed);
  CHECK(holds(text,
              "the hub redirects to https://mirror.example:8443, and redirects to other hosts are "
              "not followed"));
  CHECK(!holds(text, "secret"));
}

TEST_CASE("hub_store: its folder shows sub-folders, and names the files beneath them if asked") {
  const auto client = hub_client();
  client->responses[hub_model_address].body =
      R"({"sha":")" + hub_commit + R"(","siblings":[)" + file_json("unet/b.safetensors", "b") +
      "," + file_json("unet/a.safetensors", "a") + "," + file_json("config.json", "{}") + "]}";
  const found_source found =
      make_hub_store(client, hub_without_cache(), false)->find("hf://owner/model", {});
  CHECK(found.folder->names({}) == std::vector<std::string>{"config.json", "unet"});
  CHECK(found.folder->names_beneath({}) ==
        std::vector<std::string>{"config.json", "unet/a.safetensors", "unet/b.safetensors"});
}

TEST_CASE("hub_store: bytes that are not the hub's are an error where all of them are hashed") {
  const temporary_folder cache;
  hub_options how;
  how.cache = hub_cache::fill;
  how.cache_folder = cache.path().native();
  std::vector<hub_cached_file> told;
  how.on_cached = [&](const hub_cached_file& file) { told.push_back(file); };
  const auto client = hub_client();
  client->objects.begin()->second = std::make_shared<memory_source>("WEIGHTS");
  {
    const auto store = make_hub_store(client, how, false);
    const found_source found = store->find("hf://owner/model", {});
    const auto file = found.folder->open("model.safetensors", {});
    CHECK(file->identity().empty());  // The state after opening.
    CHECK(read_text(*file, 0, 7) == "WEIGHTS");
    for (int i = 0; i < 2; ++i) {
      const std::string text = refusal(*file);
      CHECK(holds(text, remote_http::sha256_hex("weights")));
      CHECK(holds(text, remote_http::sha256_hex("WEIGHTS")));
    }
  }
  REQUIRE(told.size() == 1);
  CHECK(!told[0].whole);
  CHECK(told[0].error_text.empty());  // The load reports the error.
  CHECK(make_hub_store(client, how, false)->find("owner/model", {}).local_path.empty());
}

TEST_CASE("hub_store: bytes that are not the hub's are an error without the cache, too") {
  const temporary_folder cache;
  for (const hub_cache kind : {hub_cache::off, hub_cache::read}) {
    hub_options how;
    how.cache = kind;
    how.cache_folder = cache.path().native();
    const auto client = hub_client();
    client->objects.begin()->second = std::make_shared<memory_source>("WEIGHTS");
    const auto store = make_hub_store(client, how, false);
    const auto file = store->find("hf://owner/model", {}).folder->open("model.safetensors", {});
    CHECK(read_text(*file, 0, 7) == "WEIGHTS");
    CHECK(refusal(*file) != "");
  }
}

TEST_CASE("hub_store: bytes are compared with the digest if the cache file cannot be written") {
  for (const char* obstacle : {".locks", "models--owner--model"}) {
    const temporary_folder cache;
    std::ofstream(cache.path() / obstacle) << "in the way";
    std::string told;
    hub_options options;
    options.cache = hub_cache::fill;
    options.cache_folder = cache.path().native();
    options.on_cached = [&](const hub_cached_file& file) { told = file.error_text; };
    for (const std::string content : {"weights", "WEIGHTS"}) {
      const auto client = hub_client();
      client->objects.begin()->second = std::make_shared<memory_source>(content);
      const auto store = make_hub_store(client, options, false);
      const auto file = store->find("hf://owner/model", {}).folder->open("model.safetensors", {});
      CHECK(holds(told, obstacle));
      CHECK(read_text(*file, 0, 7) == content);
      CHECK(refusal(*file).empty() == (content == "weights"));
    }
  }
}

TEST_CASE("hub_store: a listing that is none is refused") {
  const auto client = hub_client();
  const auto store = make_hub_store(client, hub_without_cache(), false);
  client->responses[hub_model_address].body = "<html>";
  CHECK(holds(thrown_by(*store, "hf://owner/model", errc::malformed_answer), "byte 0"));
  client->responses[hub_model_address].body =
      R"({"sha":")" + hub_commit + R"(","siblings":[{"rfilename":"../../x"}]})";
  CHECK(holds(thrown_by(*store, "hf://owner/model", errc::malformed_answer), "leaves the model"));
}

TEST_CASE("hub_store: what the cache has of that commit is opened there") {
  const temporary_folder cache;
  cache_model(cache.path(), hub_commit);
  hub_options how;
  how.cache_folder = cache.path().native();
  const auto client = hub_client();
  const fs::path snapshot = cache.path() / "models--owner--model/snapshots" / hub_commit;
  const auto store = make_hub_store(client, how, false);
  CHECK(store->find("hf://owner/model", {}).local_path == snapshot);
  CHECK(store->find("hf://owner/model/model.safetensors", {}).local_path ==
        snapshot / "model.safetensors");
  CHECK(store->find("hf://owner/model/config.json", {}).local_path.empty());
  how.cache = hub_cache::off;
  CHECK(make_hub_store(client, how, false)->find("hf://owner/model", {}).local_path.empty());
}

TEST_CASE("hub_store: an older commit in the cache is used only where the hub is out of reach") {
  const temporary_folder cache;
  const std::string older(40, 'b');
  cache_model(cache.path(), older);
  hub_options how;
  how.cache_folder = cache.path().native();
  const auto client = hub_client();
  const auto store = make_hub_store(client, how, false);
  CHECK(store->find("hf://owner/model", {}).folder != nullptr);
  client->responses.clear();
  CHECK(store->find("hf://owner/model", {}).local_path ==
        cache.path() / "models--owner--model/snapshots" / older);
  CHECK(holds(thrown_by(*store, "hf://owner/other", errc::remote_failed), "owner/other"));
}

TEST_CASE("hub_store: offline nothing is asked for") {
  const temporary_folder cache;
  cache_model(cache.path(), hub_commit);
  hub_options how;
  how.cache_folder = cache.path().native();
  const auto client = hub_client();
  const auto store = make_hub_store(client, how, true);
  CHECK(!store->find("hf://owner/model", {}).local_path.empty());
  CHECK(thrown_by(*store, "hf://owner/other", errc::source_not_found) != "nothing");
  CHECK(client->requests.empty());
}

TEST_CASE("hub_store: with hub_cache::fill the next load is local") {
  const temporary_folder cache;
  hub_options how;
  how.cache = hub_cache::fill;
  how.cache_folder = cache.path().native();
  const auto client = hub_client();
  {
    const auto store = make_hub_store(client, how, false);
    const found_source found = store->find("hf://owner/model", {});
    const auto file = found.folder->open("model.safetensors", {});
    CHECK(read_text(*file, 0, 7) == "weights");
  }
  const auto local = make_hub_store(client, how, false)->find("owner/model", {}).local_path;
  REQUIRE(!local.empty());
  CHECK(fs::file_size(fs::path(local) / "model.safetensors") == 7);
}

TEST_CASE("s3_store: a prefix is a folder of what lies directly in it") {
  const auto client = std::make_shared<scripted_client>();
  const std::string list = "http://s3:9000/bucket/?" + std::string(s3_list) + "m%2F";
  client->responses[list].body = s3_page_xml(
      "<EncodingType>url</EncodingType>" + s3_object_xml("m/") + s3_object_xml("m/a%20b") +
      s3_object_xml("m/../x") + s3_object_xml("other/y") +
      "<IsTruncated>true</IsTruncated><NextContinuationToken>2/=</NextContinuationToken>");
  client
      ->responses["http://s3:9000/bucket/?continuation-token=2%2F%3D&" + std::string(s3_list) +
                  "m%2F"]
      .body = s3_page_xml(s3_object_xml("m/c"));
  client->objects["http://s3:9000/bucket/m/a%20b"] = std::make_shared<memory_source>("weights");

  const auto store = make_s3_store(client, s3_of("http://s3:9000"));
  CHECK(store->has_name("s3://bucket/m/"));
  CHECK(!store->has_name("https://s3/bucket"));
  const found_source found = store->find("s3://bucket/m", {});
  REQUIRE(found.folder != nullptr);
  CHECK(found.file.empty());
  CHECK(found.folder->names({}) == std::vector<std::string>{"a b", "c"});
  CHECK(found.folder->path_of("c") == "s3://bucket/m/c");
  CHECK(read_text(*found.folder->open("a b", {}), 0, 7) == "weights");
  CHECK_THROWS_AS(found.folder->open("c", {}), error);
}

TEST_CASE("s3_store: sub-folders are shown, and searched if that is asked for") {
  const auto client = std::make_shared<scripted_client>();
  client->responses["http://s3:9000/bucket/?" + std::string(s3_list) + "m%2F"].body = s3_page_xml(
      "<EncodingType>url</EncodingType>"
      "<CommonPrefixes><Prefix>m/a%20b/</Prefix></CommonPrefixes>"
      "<CommonPrefixes><Prefix>m/x.safetensors/</Prefix></CommonPrefixes>"
      "<CommonPrefixes><Prefix>other/</Prefix></CommonPrefixes>" +
      s3_object_xml("m/c"));
  client->responses["http://s3:9000/bucket/?encoding-type=url&list-type=2&prefix=m%2F"].body =
      s3_page_xml(s3_object_xml("m/c") + s3_object_xml("m/a b/d.safetensors"));
  const auto store = make_s3_store(client, s3_of("http://s3:9000"));
  const found_source found = store->find("s3://bucket/m", {});
  CHECK(found.file.empty());
  CHECK(found.folder->names({}) == std::vector<std::string>{"c", "a b"});
  CHECK(found.folder->names_beneath({}) == std::vector<std::string>{"a b/d.safetensors", "c"});
  CHECK(found.folder->names({}) == std::vector<std::string>{"c", "a b"});
}

TEST_CASE("s3_store: an endpoint that is no address is refused when the store is made") {
  try {
    make_s3_store(std::make_shared<scripted_client>(), s3_of("garbage"));
    FAIL("it was made");
  } catch (const error& e) {
    CHECK(e.code() == errc::invalid_options);
    CHECK(e.place() == "s3_options::endpoint");
    CHECK(!holds(e.what(), "garbage"));
  }
}

TEST_CASE("s3_store: a key is an object, by its name or because nothing lies beneath it") {
  const auto client = std::make_shared<scripted_client>();
  const auto store = make_s3_store(client, s3_of("http://s3:9000"));
  const found_source named = store->find("s3://bucket/m/model.safetensors", {});
  CHECK(named.file == "model.safetensors");
  CHECK(named.folder->path_of(named.file) == "s3://bucket/m/model.safetensors");
  CHECK(client->requests.empty());
  CHECK(store->find("s3://bucket/model.safetensors", {}).file == "model.safetensors");
  client->responses["http://s3:9000/bucket/?" + std::string(s3_list) + "m%2Fweights%2F"].body =
      s3_page_xml("");
  CHECK(store->find("s3://bucket/m/weights", {}).file == "weights");
}

TEST_CASE("s3_store: an object that is not given says why, by the server's code") {
  const auto client = std::make_shared<scripted_client>();
  client->responses["http://s3:9000/bucket/model.safetensors"] = {
      403, "<Error><Code>ExpiredToken</Code></Error>", {}};
  const auto store = make_s3_store(client, s3_of("http://s3:9000"));
  const found_source found = store->find("s3://bucket/model.safetensors", {});
  try {
    static_cast<void>(found.folder->open(found.file, {}));
    FAIL("it was opened");
  } catch (const error& e) {
    CHECK(e.code() == errc::access_denied);
    CHECK(holds(e.what(), "ExpiredToken"));
  }
}

TEST_CASE("s3_store: requests are signed, and no credential is in a message") {
  const auto client = std::make_shared<scripted_client>();
  const std::string list = "http://s3:9000/bucket/?" + std::string(s3_list);
  s3_options how = s3_of("http://s3:9000");
  how.session_token = "sessionsecret";
  client->responses[list] = {
      403,
      "<Error><Code>SignatureDoesNotMatch</Code><AWSAccessKeyId>AKIDEXAMPLE</AWSAccessKeyId>"
      "<StringToSign>sessionsecret</StringToSign></Error>",
      {}};
  const auto store = make_s3_store(client, how);
  const std::string text = thrown_by(*store, "s3://bucket", errc::access_denied);
  CHECK(holds(text, "SignatureDoesNotMatch"));
  for (const std::string_view secret : {"AKIDEXAMPLE", "sessionsecret", "topsecretkey"}) {
    CHECK(!holds(text, secret));
  }
  const std::string signature = client->last_signature();
  CHECK(holds(signature, "Credential=AKIDEXAMPLE/"));
  CHECK(holds(signature, "/us-east-1/s3/aws4_request"));
  CHECK(holds(signature, "X-Amz-Security-Token: sessionsecret"));
  CHECK(!holds(signature, s3_secret));
  how.access_key_id = "";
  CHECK(holds(thrown_by(*make_s3_store(client, how), "s3://bucket", errc::access_denied),
              "credentials are required"));
  CHECK(client->last_signature().empty());
  how.missing_keys_reason = "there is no profile 'x'";
  CHECK(holds(thrown_by(*make_s3_store(client, how), "s3://bucket", errc::access_denied),
              "; there is no profile 'x'"));
  how.access_key_id = "a\nb";
  CHECK_THROWS_AS(make_s3_store(client, how), error);
}

TEST_CASE("s3_store: Amazon is asked where a bucket is") {
  const auto client = std::make_shared<scripted_client>();
  client->responses["https://bucket.s3.us-east-1.amazonaws.com/"] = {
      301, "", {{"x-amz-bucket-region", "eu-west-1"}}};
  client->responses["https://bucket.s3.eu-west-1.amazonaws.com/?" + std::string(s3_list)].body =
      s3_page_xml(s3_object_xml("model.safetensors"));
  const auto store = make_s3_store(client, s3_of(""));
  CHECK(store->find("s3://bucket", {}).folder->names({}).size() == 1);
  CHECK(client->asked_for("HEAD https://bucket.s3.us-east-1.amazonaws.com/"));
  CHECK(holds(client->last_signature(), "/eu-west-1/s3/"));

  s3_options how = s3_of("");
  how.region = "us-east-1";
  client->responses["https://bucket.s3.us-east-1.amazonaws.com/?" + std::string(s3_list)] = {
      301, "<Error><Code>PermanentRedirect</Code></Error>", {{"x-amz-bucket-region", "eu-west-1"}}};
  CHECK(holds(thrown_by(*make_s3_store(client, how), "s3://bucket", errc::remote_failed),
              "eu-west-1"));
}
