// SPDX-License-Identifier: Apache-2.0

// Refusals of S3 after which a load or a save continues.

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <ringload/remote.hpp>
#include <ringload/ringload.hpp>
#include <string>
#include <utility>
#include <vector>

#include "remote/http_loads.hpp"
#include "remote/s3_standin.hpp"
#include "remote/s3_store.hpp"
#include "remote/scripted_client.hpp"

using namespace ringload;
using namespace ringload::testing;

TEST_CASE("s3_store: a key without a suffix is an object if the server refuses the listing") {
  const auto client = std::make_shared<scripted_client>();
  const std::string list =
      "http://s3:9000/bucket/?delimiter=%2F&encoding-type=url&list-type=2&prefix=m%2Fweights%2F";
  client->responses[list] = {403, "<Error><Code>AccessDenied</Code></Error>", {}};
  client->objects["http://s3:9000/bucket/m/weights"] = std::make_shared<memory_source>("weights");
  s3_options options;
  options.endpoint = "http://s3:9000";
  const auto store = remote_http::make_s3_store(client, options);
  const found_source found = store->find("s3://bucket/m/weights", {});
  CHECK(found.file == "weights");
  CHECK(found.folder->open(found.file, {})->bytes() == 7);
  client->responses[list] = {404, "<Error><Code>NoSuchBucket</Code></Error>", {}};
  try {
    static_cast<void>(store->find("s3://bucket/m/weights", {}));
    FAIL("the refusal was ignored");
  } catch (const error& refused) {
    CHECK(refused.code() == errc::source_not_found);
    CHECK(holds(refused.what(), "no such bucket"));
  }
}

TEST_CASE("s3 save: a temporary error with the status 400 is retried, and other errors are not") {
  bool has_failed = false;
  s3_standin s3;
  remote_options options = quick();
  options.s3.endpoint = s3.endpoint();
  options.s3.access_key_id = "KEYIDEXAMPLE";
  options.s3.secret_access_key = "SECRETEXAMPLE";
  loader_options limits = small_options(4);
  limits.slot_bytes = 1 << 20;
  loader saver(host(), limits, {remote(options)});
  const std::string bytes(9 << 20, 'x');  // Two parts.
  for (const char* const kind : {"put", "part", "complete"}) {
    for (const char* const code : {"RequestTimeout", "InvalidRequest"}) {
      CAPTURE(kind);
      CAPTURE(code);
      s3.before = {};
      has_failed = false;
      s3.before = [&has_failed, kind, code](const web_request& asked, std::uint64_t) {
        std::optional<web_reply> reply;
        if (s3_standin::kind_of(asked) == kind && !has_failed) {
          has_failed = true;
          reply = web_response(400, {}, "<Error><Code>" + std::string(code) + "</Code></Error>");
        }
        return reply;
      };
      const std::size_t saved_bytes = std::string(kind) == "put" ? 1000 : bytes.size();
      const std::vector<tensor_ref> saved = {
          tensor_ref("a", bytes.data(), dtype::u8, {saved_bytes})};
      auto saving = saver.save_async("s3://bucket/x.safetensors", saved, use_future);
      if (std::string(code) == "RequestTimeout") {
        get(std::move(saving));
      } else {
        const auto failed = failure_of(std::move(saving));
        REQUIRE(failed);
        CHECK(holds(failed->what(), code));
      }
      CHECK(has_failed);
      CHECK(s3.uploads.empty());
    }
  }
}
