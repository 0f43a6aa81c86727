// SPDX-License-Identifier: Apache-2.0
#include "target.hpp"

#include <doctest/doctest.h>

using namespace ringload::server;

namespace {

using parts = std::vector<std::string>;

bool is_part(const range_answer& of, std::uint64_t begin, std::uint64_t end) {
  return of.kind == range_kind::part && of.bytes.begin == begin && of.bytes.end == end;
}

}  // namespace

TEST_CASE("target: is cut at slashes, and the fourth part takes the rest") {
  CHECK(parse_target("/")->parts.empty());
  CHECK(parse_target("/models")->parts == parts{"models"});
  CHECK(parse_target("/models/")->parts == parts{"models", ""});
  CHECK(parse_target("/models/a/tensors/b/c.d")->parts == parts{"models", "a", "tensors", "b/c.d"});
  CHECK(parse_target("/models/a/tensors/")->parts == parts{"models", "a", "tensors", ""});
}

TEST_CASE("target: is decoded after it was cut") {
  CHECK(parse_target("/models%2Fa/b%20%c3%A4")->parts == parts{"models/a", "b \xc3\xa4"});
  const auto query = parse_target("/x?a=1%262&b&=c&a%3d=");
  CHECK(query->query.at("a") == "1&2");
  CHECK(query->query.at("b").empty());
  CHECK(query->query.at("a=").empty());
}

TEST_CASE("target: an absolute target has a host") {
  CHECK(parse_target("/health")->host.empty());
  const auto health = parse_target("http://localhost:8080/models/a?limit=5");
  CHECK(health->host == "localhost:8080");
  CHECK(health->parts == parts{"models", "a"});
  CHECK(health->query.at("limit") == "5");
  CHECK(parse_target("HTTP://[::1]")->host == "[::1]");
  CHECK(parse_target("http://host")->parts.empty());
  CHECK(parse_target("http://host?a=1")->query.at("a") == "1");
}

TEST_CASE("target: what is malformed is refused") {
  for (const char* text : {"", "*", "models", "/%", "/%1", "/%zz", "/%-1", "/a?b=%", "/a?%g0=1",
                           "http://", "http:///health", "ftp://host/health",
                           "http://localhost:80@evil/health", "http://user@localhost"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_target(text));
  }
}

TEST_CASE("target: a number is digits and nothing else") {
  const auto of = parse_target("/?a=12&b=&c=-1&d=99999999999999999999&e=1x");
  CHECK(number_in(*of, "a", 7) == 12);
  CHECK(number_in(*of, "missing", 7) == 7);
  for (const char* key : {"b", "c", "d", "e"}) CHECK_FALSE(number_in(*of, key, 7));
}

TEST_CASE("range: first and last byte, to the end, and the last few") {
  CHECK(is_part(parse_range("bytes=0-0", 10), 0, 1));
  CHECK(is_part(parse_range("bytes=3-9", 10), 3, 10));
  CHECK(is_part(parse_range("bytes=3-99", 10), 3, 10));
  CHECK(is_part(parse_range("bytes=3-18446744073709551615", 10), 3, 10));
  CHECK(is_part(parse_range("bytes=9-", 10), 9, 10));
  CHECK(is_part(parse_range("bytes=-4", 10), 6, 10));
  CHECK(is_part(parse_range("bytes=-99", 10), 0, 10));
}

TEST_CASE("range: outside is not the same as malformed") {
  for (const char* text : {"bytes=10-", "bytes=10-12", "bytes=-0"}) {
    CHECK(parse_range(text, 10).kind == range_kind::outside);
  }
  CHECK(parse_range("bytes=0-", 0).kind == range_kind::outside);
  CHECK(parse_range("bytes=-1", 0).kind == range_kind::outside);
  for (const char* text : {"", "bytes", "bytes=", "bytes=-", "bytes=a-b", "bytes=5-3",
                           "bytes=1-2,4-5", "bytes= 1-2", "items=1-2", "bytes=1-2x"}) {
    CAPTURE(text);
    CHECK(parse_range(text, 10).kind == range_kind::whole);
  }
}

TEST_CASE("accept: the type is found among others") {
  CHECK(accepts("text/event-stream", "text/event-stream"));
  CHECK(accepts("text/html, Text/Event-Stream;q=0.5", "text/event-stream"));
  CHECK_FALSE(accepts("text/event-streams", "text/event-stream"));
  CHECK_FALSE(accepts("*/*", "text/event-stream"));
  CHECK_FALSE(accepts("", "text/event-stream"));
}

TEST_CASE("host: only names of this machine's loopback") {
  for (const char* text : {"localhost", "LOCALHOST:80", "127.0.0.1", "127.9.8.7:1", "[::1]",
                           "[::1]:80", "[0:0::1]", "[::ffff:127.0.0.1]:80"}) {
    CAPTURE(text);
    CHECK(is_loopback_host(text));
  }
  for (const char* text : {"", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1",
                           "[::1].evil.example", "[::1]evil.example", "[::1", "[]", "[::2]"}) {
    CAPTURE(text);
    CHECK_FALSE(is_loopback_host(text));
  }
}

TEST_CASE("host: addresses of the loopback interface, of IPv4 and IPv6") {
  for (const char* text : {"127.0.0.1", "127.9.8.7", "::1", "::ffff:127.0.0.1"}) {
    CAPTURE(text);
    CHECK(is_loopback_address(text));
  }
  for (const char* text : {"", "0.0.0.0", "10.0.0.1", "::", "::2", "::ffff:10.0.0.1", "[::1]"}) {
    CAPTURE(text);
    CHECK_FALSE(is_loopback_address(text));
  }
}
