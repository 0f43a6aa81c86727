// SPDX-License-Identifier: Apache-2.0

// Temporary credentials that expire, and their renewal.

#include "remote/s3/s3_keyring.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <stdexcept>
#include <string>

#include "remote/http_loads.hpp"

using namespace ringload;
using namespace ringload::testing;
using remote_http::s3_keyring;

namespace {

remote_options s3_of(const scripted_server& server) {
  remote_options options = quick();
  options.s3.endpoint = server.address("");
  options.s3.access_key_id = "ID";
  options.s3.secret_access_key = "secret";
  options.s3.session_token = "token-0";
  return options;
}

// Accepts the object only with one session token.
web_reply answer(const web_request& request, std::uint64_t number, const std::string& token,
                 unsigned refusal) {
  if (request.field("x-amz-security-token") == token) return good(request, number);
  return web_response(refusal, {}, "<Error><Code>ExpiredToken</Code></Error>");
}

}  // namespace

TEST_CASE("s3_keyring: requests that are refused together ask for credentials once") {
  int calls = 0;
  s3_keyring keys({"ID", "secret", "token-0"}, [&calls]() -> std::optional<s3_keys> {
    return s3_keys{"ID", "secret", "token-" + std::to_string(++calls)};
  });
  const auto signed_at = s3_keyring::clock::now();
  for (int i = 0; i < 5; ++i) CHECK(keys.renew(signed_at));
  CHECK(calls == 1);
  CHECK(keys.current().session_token == "token-1");
  CHECK(keys.renew(s3_keyring::clock::now()));
  CHECK(calls == 2);
}

TEST_CASE("s3_keyring: no credentials, the same ones and an exception renew nothing") {
  const s3_keys same = {"ID", "secret", "token-0"};
  for (const s3_keyring::source& source :
       {s3_keyring::source(), s3_keyring::source([] { return std::optional<s3_keys>(); }),
        s3_keyring::source([] { return std::optional(s3_keys()); }),
        s3_keyring::source([same] { return std::optional(same); }),
        s3_keyring::source([]() -> std::optional<s3_keys> { throw std::runtime_error("no"); })}) {
    s3_keyring keys({"ID", "secret", "token-0"}, source);
    const auto signed_at = s3_keyring::clock::now();
    CHECK(!keys.renew(signed_at));
    CHECK(!keys.renew(signed_at));
    CHECK(keys.current().session_token == "token-0");
  }
}

TEST_CASE("s3_keyring: a request that is older than two renewals is repeated if one changed keys") {
  for (const bool fails : {false, true}) {
    CAPTURE(fails);
    int calls = 0;
    s3_keyring keys({"ID", "secret", "token-0"}, [&calls, fails]() -> std::optional<s3_keys> {
      if (++calls > 1 && fails) return std::nullopt;
      return s3_keys{"ID", "secret", "token-1"};
    });
    const auto signed_at = s3_keyring::clock::now();
    CHECK(keys.renew(signed_at));
    CHECK(!keys.renew(s3_keyring::clock::now() + std::chrono::hours(1)));
    CHECK(calls == 2);
    CHECK(keys.renew(signed_at));  // Another request was refused late.
    CHECK(calls == 2);
    CHECK(keys.current().session_token == "token-1");
  }
}

TEST_CASE("s3: credentials that expire during a load are renewed, whatever the server answers") {
  for (const unsigned refusal : {400U, 401U, 403U}) {
    CAPTURE(refusal);
    std::atomic<int> calls = 0;
    scripted_server server([refusal](const web_request& request, std::uint64_t number) {
      const std::string token = number < 5 ? "token-0" : "token-1";
      return answer(request, number, token, refusal);
    });
    remote_options options = s3_of(server);
    options.s3.renew = [&calls]() -> std::optional<s3_keys> {
      ++calls;
      return s3_keys{"ID", "secret", "token-1"};
    };
    loader loader_with_keys = loads(options);
    CHECK(right(get(loader_with_keys.load_async("s3://bucket/x.safetensors", use_future))));
    CHECK(calls >= 1);
    CHECK(calls <= 2);
  }
}

TEST_CASE("s3: a server that refuses the renewed credentials too fails the load") {
  std::atomic<int> calls = 0;
  scripted_server server([](const web_request& request, std::uint64_t number) {
    return answer(request, number, "no such token", 403);
  });
  remote_options options = s3_of(server);
  options.s3.renew = [&calls]() -> std::optional<s3_keys> {
    return s3_keys{"ID", "secret", "token-" + std::to_string(++calls)};
  };
  loader loader_with_keys = loads(options);
  const error failed = failure(loader_with_keys, "s3://bucket/x.safetensors");
  CHECK(failed.code() == errc::access_denied);
  CHECK(holds(failed.what(), "ExpiredToken"));
  for (const char* secret : {"token-", "secret"}) CHECK(!holds(failed.what(), secret));
}
