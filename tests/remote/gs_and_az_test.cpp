// SPDX-License-Identifier: Apache-2.0

// Stores for gs:// and az://.

#include <doctest/doctest.h>

#include <memory>
#include <ringload/error.hpp>
#include <string>
#include <vector>

#include "remote/http_store.hpp"
#include "remote/s3_store.hpp"
#include "remote/scripted_client.hpp"
#include "support/waiting.hpp"

using namespace ringload;
using namespace ringload::remote_http;
using namespace ringload::testing;

TEST_CASE("gs: the store of Google is asked as S3 is, and named gs://") {
  const auto client = std::make_shared<scripted_client>();
  s3_options options;
  options.endpoint = "http://gs:9000";
  options.access_key_id = "GOOGEXAMPLE";
  options.secret_access_key = "topsecretkey";
  const auto store = make_s3_store(client, options, gs_scheme);
  CHECK(store->has_name("gs://bucket/x"));
  CHECK(!store->has_name("s3://bucket/x"));
  client->responses["http://gs:9000/bucket/?delimiter=%2F&encoding-type=url&list-type=2&prefix="]
      .body =
      "<ListBucketResult><Contents><Key>model.safetensors</Key><Size>1</Size></Contents>"
      "</ListBucketResult>";
  const auto folder = store->find("gs://bucket", {}).folder;
  CHECK(folder->names({}) == std::vector<std::string>{"model.safetensors"});
  CHECK(folder->path_of("model.safetensors") == "gs://bucket/model.safetensors");
  CHECK(holds(client->last_signature(), "AWS4-HMAC-SHA256"));
}

TEST_CASE("az: each request has the signature and the version, and no text has the signature") {
  const auto client = std::make_shared<scripted_client>();
  azure_options options;
  options.sas_token = "?sv=2021&sig=top%2Fsecret";
  const auto store = make_azure_store(client, options);
  CHECK(store->has_name("az://account/box/x"));
  const std::string base = "https://account.blob.core.windows.net/box/a%20b/";
  const std::string query = "?sv=2021&sig=top%2Fsecret";
  client->objects[base + "model.safetensors.index.json" + query] =
      std::make_shared<memory_source>("index");
  client->objects[base + "one.safetensors" + query] = std::make_shared<memory_source>("shard");
  const found_source found = store->find("az://account/box/a b/model.safetensors.index.json", {});
  CHECK(found.file == "model.safetensors.index.json");
  CHECK(read_text(*found.folder->open(found.file, {}), 0, 5) == "index");
  CHECK(read_text(*found.folder->open("one.safetensors", {}), 0, 5) == "shard");
  CHECK(client->last_signature() == "x-ms-version: 2021-08-06\n");
  CHECK(found.folder->path_of("one.safetensors") == base + "one.safetensors");
  CHECK_THROWS_AS(found.folder->names({}), error);

  options.endpoint = "http://local:10000";
  options.sas_token = "";
  client->objects["http://local:10000/account/box/x.zt"] = std::make_shared<memory_source>("local");
  const auto local = make_azure_store(client, options)->find("az://account/box/x.zt", {});
  CHECK(read_text(*local.folder->open(local.file, {}), 0, 5) == "local");
  for (const char* const name :
       {"az://", "az://account", "az://account/box", "az://account/box/", "az://acc.ount/box/x",
        "az://account/box/a/", "az://account/box//x", "az://account/box/../x"}) {
    CAPTURE(name);
    CHECK_THROWS_AS(store->find(name, {}), error);
  }
  for (const char* const token : {"secret", "sv=1 2", "sv=1#x", "a?b=c"}) {
    CAPTURE(token);
    options.sas_token = token;
    CHECK_THROWS_AS(make_azure_store(client, options), error);
  }
}

TEST_CASE("az: an endpoint may end with '/', and an invalid endpoint is refused at once") {
  const auto client = std::make_shared<scripted_client>();
  azure_options options;
  client->objects["http://local:10000/account/box/x.zt"] = std::make_shared<memory_source>("local");
  for (const char* const endpoint : {"http://local:10000/", "http://local:10000//"}) {
    CAPTURE(endpoint);
    options.endpoint = endpoint;
    const auto found = make_azure_store(client, options)->find("az://account/box/x.zt", {});
    CHECK(read_text(*found.folder->open(found.file, {}), 0, 5) == "local");
  }
  for (const char* const token : {"", "sv=2021&sig=secret"}) {
    options.sas_token = token;
    for (const char* const endpoint :
         {"local:10000", "/", "https://", "ftp://local", "http://local?x=1", "http://local/#x"}) {
      CAPTURE(endpoint);
      options.endpoint = endpoint;
      try {
        make_azure_store(client, options);
        FAIL("it was made");
      } catch (const error& e) {
        CHECK(e.code() == errc::invalid_options);
        CHECK(e.place() == "azure_options::endpoint");
      }
    }
  }
}
