// SPDX-License-Identifier: Apache-2.0
#include "load_request.hpp"

#include <doctest/doctest.h>

#include <stdexcept>

using ringload::server::load_request;
using ringload::server::parse_load_wish;
using ringload::server::parse_version_wish;

namespace {

std::string refusal_of(const std::string& body) {
  try {
    parse_load_wish(body);
  } catch (const std::invalid_argument& wrong) {
    return wrong.what();
  }
  return "";
}

}  // namespace

TEST_CASE("load wish: a source alone is all of it") {
  const load_request wish = parse_load_wish(R"({"source": "a/b"})");
  CHECK(wish.id.empty());
  CHECK(wish.order.source == "a/b");
  CHECK(wish.order.wanted.everything());
}

TEST_CASE("load wish: parts of a checkpoint, as the tool's options have them") {
  const load_request wish = parse_load_wish(
      R"({"source": "a", "id": "m", "select": ["w*", "x"], "except": ["*.bias"], )"
      R"("slice": ["w[0:2]"], "shard": ["q:0", "o:1"], "rank": "1/4", "experts": true})");
  CHECK(wish.id == "m");
  CHECK(wish.order.wanted.select == std::vector<std::string>{"w*", "x"});
  CHECK(wish.order.wanted.except == std::vector<std::string>{"*.bias"});
  CHECK(wish.order.wanted.slices.at(0).name == "w");
  CHECK(wish.order.wanted.shards.at(1).dim == 1);
  CHECK(wish.order.wanted.rank.value().rank == 1);
  CHECK(wish.order.wanted.experts);
}

TEST_CASE("load wish: what is wrong is said") {
  for (const char* body : {"", "{", "[]", "{}", R"({"source": 1})"}) {
    CAPTURE(body);
    CHECK(refusal_of(body) == "the body must be {\"source\": \"...\"}");
  }
  CHECK(refusal_of(R"({"source": "a", "zzz": 1})") == "unknown key \"zzz\"");
  CHECK(refusal_of(R"({"source": "a", "selekt": ["w"]})") == "unknown key \"selekt\"");
  CHECK(refusal_of(R"({"source": "a", "id": "b", "source": "c"})") == "duplicate key \"source\"");
  CHECK(refusal_of(R"({"source": "{\"a\":[", "so\u0075rce": "c"})") == "duplicate key \"source\"");
  CHECK(refusal_of(R"({"source": "a\u0000b"})") == "the source holds a NUL");
  CHECK(refusal_of(R"({"source": "a", "id": "a/b"})").starts_with("an id is"));
  CHECK(refusal_of(R"({"source": "a", "select": "w"})") == "\"select\" must be a list of strings");
  CHECK(refusal_of(R"({"source": "a", "select": []})") == "\"select\" must have at least one glob");
  CHECK(refusal_of(R"({"source": "a", "shard": [1]})") == "\"shard\" must be a list of strings");
  CHECK(refusal_of(R"({"source": "a", "slice": ["w"]})").starts_with("slice: 'w' has no ranges"));
  CHECK(refusal_of(R"({"source": "a", "shard": ["w"]})")
            .starts_with("shard: 'w' is invalid, expected GLOB"));
  CHECK(refusal_of(R"({"source": "a", "rank": "4/4"})") ==
        "rank: '4/4' is invalid, expected 0/4 to 3/4");
  CHECK(refusal_of(R"({"source": "a", "rank": 1})").starts_with("\"rank\" must be a string"));
  CHECK(refusal_of(R"({"source": "a", "experts": 1})") == "\"experts\" must be true or false");
  CHECK(refusal_of(R"({"source": "a", "rank": "0/4"})") == "rank needs shard or experts");
  CHECK(refusal_of(R"({"source": "a", "shard": ["w:0"]})") == "shard needs rank");
}

TEST_CASE("version wish: a delta alone is all of it") {
  CHECK(parse_version_wish(R"({"delta": "run/v1.delta.zt"})") == "run/v1.delta.zt");
  for (const char* body : {R"({})", R"({"delta": 1})", R"({"delta": "a", "id": "m"})",
                           R"({"delta": "a\u0000b"})", R"({"source": "a"})", "a"}) {
    CAPTURE(body);
    CHECK_THROWS_AS(parse_version_wish(body), std::invalid_argument);
  }
}
