// SPDX-License-Identifier: Apache-2.0
#include "remote/http/no_proxy.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using ringload::remote_http::is_exempt;

namespace {

bool exempts(const std::string& entry, const std::string& host, std::uint16_t port = 443) {
  const std::vector<std::string> entries = {"first.example", entry};
  return is_exempt(entries, host, port);
}

}  // namespace

TEST_CASE("no_proxy: a name contains the host and its sub-domains") {
  for (const char* entry : {"example.com", ".example.com", "*.example.com", " Example.COM "}) {
    CAPTURE(entry);
    CHECK(exempts(entry, "example.com"));
    CHECK(exempts(entry, "a.b.example.com"));
    CHECK(!exempts(entry, "anexample.com"));
    CHECK(!exempts(entry, "example.com.evil"));
  }
  CHECK(exempts("*", "anything"));
  CHECK(!exempts("", "anything"));
  CHECK(!exempts(".", "anything"));
}

TEST_CASE("no_proxy: a port restricts an entry") {
  CHECK(exempts("localhost:8080", "localhost", 8080));
  CHECK(!exempts("localhost:8080", "localhost", 80));
  CHECK(exempts("[::1]:8080", "::1", 8080));
  CHECK(!exempts("[::1]:8080", "::1", 80));
  CHECK(exempts("[::1]", "::1"));
  CHECK(exempts("::1", "::1"));
}

TEST_CASE("no_proxy: a network contains its addresses, and no names") {
  CHECK(exempts("10.0.0.0/8", "10.255.1.2"));
  CHECK(exempts("10.1.2.3/8", "10.255.1.2"));
  CHECK(!exempts("10.0.0.0/8", "11.0.0.1"));
  CHECK(!exempts("10.0.0.0/8", "10.example.com"));
  CHECK(!exempts("10.0.0.0/8", "::1"));
  CHECK(exempts("fd00::/8", "fd12::1"));
  CHECK(!exempts("fd00::/8", "fe80::1"));
  CHECK(!exempts("10.0.0.0/99", "10.0.0.1"));
  CHECK(exempts("127.0.0.1", "127.0.0.1"));
}
