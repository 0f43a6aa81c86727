// SPDX-License-Identifier: Apache-2.0
#include "remote/http/url.hpp"

#include <doctest/doctest.h>

#include <boost/asio/ip/address.hpp>
#include <string>

#include "remote/http/address.hpp"

using namespace ringload;
using namespace ringload::remote_http;

namespace {

std::string resolved(const std::string& base, const std::string& location) {
  const auto found = resolve_location(*parse_http_url(base), location);
  if (!found) return "refused";
  return (found->tls ? "https://" : "http://") + found->authority() + found->target;
}

}  // namespace

TEST_CASE("an address: scheme, host, port and target") {
  const auto plain = parse_http_url("HTTP://Host.Example/a/b?q=1#part");
  REQUIRE(plain.has_value());
  CHECK(!plain->tls);
  CHECK(plain->host == "host.example");
  CHECK(plain->port == 80);
  CHECK(plain->target == "/a/b?q=1");
  CHECK(plain->authority() == "host.example");
  CHECK(plain->shown() == "http://host.example/a/b");

  const auto tls = parse_http_url("https://[::1]:8443?x");
  REQUIRE(tls.has_value());
  CHECK(tls->tls);
  CHECK(tls->host == "::1");
  CHECK(tls->port == 8443);
  CHECK(tls->target == "/?x");
  CHECK(tls->authority() == "[::1]:8443");
  CHECK(parse_http_url("https://h")->port == 443);
  CHECK(parse_http_url("https://h")->target == "/");
}

TEST_CASE("an address: what is none is refused, and no part of it is in the fault") {
  for (const char* text :
       {"ftp://h/x", "http:/h", "http://", "http:///x", "http://h:0/", "http://h:65536/",
        "http://h:8o/", "http://h:+8/", "http://h:8 /", "http://secret:secret@h/",
        "http://h/secret x", "http://h/\r\nsecret", "http://h\x7F/", "http://[::1/",
        "http://[::g]/", "http://[::1]x/", "http://h\xC3\xA4/", "file:///etc/passwd", ""}) {
    CAPTURE(text);
    const auto found = parse_http_url(text);
    REQUIRE(found.has_error());
    CHECK(found.error().code == errc::invalid_source_name);
    CHECK((found.error().where() + found.error().cause()).find("secret") == std::string::npos);
  }
  CHECK(parse_http_url("http://h/" + std::string(8192, 'a')).has_error());
  CHECK(parse_http_url("http://h/" + std::string(8192 - 9, 'a')).has_value());
}

TEST_CASE("a location: relative to where it was given") {
  CHECK(resolved("http://h/a/b?q", "c") == "http://h/a/c");
  CHECK(resolved("http://h/a/b?q", "c?r#s") == "http://h/a/c?r");
  CHECK(resolved("http://h/a/b?q", "/c/./d/../e") == "http://h/c/e");
  CHECK(resolved("http://h/a/b", "../../..") == "http://h/");
  CHECK(resolved("http://h/a/b/", "..") == "http://h/a/");
  CHECK(resolved("http://h/a/b?q", "?r") == "http://h/a/b?r");
  CHECK(resolved("http://h:81/a/b?q", "") == "http://h:81/a/b?q");
  CHECK(resolved("https://h/a", "//other:1/x") == "https://other:1/x");
  CHECK(resolved("https://h/a", "http://other/x") == "http://other/x");
  CHECK(resolved("http://h/a", "b:c/d") == "refused");  // An unsupported scheme.
  CHECK(resolved("http://h/a", "./b:c") == "http://h/b:c");
  CHECK(resolved("http://h/a", "file:///etc/passwd") == "refused");
  CHECK(resolved("http://h/a", "http://u@other/") == "refused");
  // A signed address must keep its escapes.
  CHECK(resolved("http://h/a/b", "c%7e%2fd?s=%7E") == "http://h/a/c%7e%2fd?s=%7E");
}

TEST_CASE("a location: raw bytes are percent-encoded, except in the host") {
  CHECK(resolved("http://h/a", "b c/\xC3\xA4?x=\"|\"#\xC3") == "http://h/b%20c/%C3%A4?x=%22%7C%22");
  CHECK(resolved("http://h/a", "http://other/\xE2\x82\xAC") == "http://other/%E2%82%AC");
  CHECK(resolved("http://h/a", "http://\xC3\xA4/x") == "refused");
  CHECK(resolved("http://h/a", "http://a b/x") == "refused");
  CHECK(resolved("http://h/a", "b\r\nc") == "refused");
  CHECK(resolved("http://h/a", "b\x7F") == "refused");
  CHECK(resolved("http://h/a", "http://other:65536/") == "refused");
}

TEST_CASE("an origin: scheme, host and port together") {
  const auto one = *parse_http_url("https://h/x");
  CHECK(one.same_origin(*parse_http_url("https://H:443/y")));
  CHECK(!one.same_origin(*parse_http_url("http://h:443/x")));
  CHECK(!one.same_origin(*parse_http_url("https://h:444/x")));
  CHECK(!one.same_origin(*parse_http_url("https://h.h/x")));
}

TEST_CASE("is_private: an IPv6 address that contains an IPv4 address, and its limits") {
  const auto is_private_text = [](const char* text) {
    return is_private(boost::asio::ip::make_address(text));
  };
  for (const char* text :
       {"8.8.8.8", "2606:4700::1", "::ffff:8.8.8.8", "64:ff9b::808:808",
        "2002:808:808::", "2001:200::1", "2001:db9::1", "3fff:1000::1", "3ffe::1"}) {
    CAPTURE(text);
    CHECK_FALSE(is_private_text(text));
  }
  // 64:ff9b:1::/48 is for translators inside a private network.
  for (const char* text :
       {"10.1.2.3", "::1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "64:ff9b:1::808:808",
        "64:ff9b:0:0:1::808:808", "2002:a00:1::", "2001:db8::1", "2001::1", "2001:1ff::1",
        "3fff::1", "3fff:fff::1", "fe80::1", "fc00::1"}) {
    CAPTURE(text);
    CHECK(is_private_text(text));
  }
}

TEST_CASE("names_private: addresses and names of private networks, in any spelling") {
  for (const char* host :
       {"8.8.8.8", "huggingface.co", "huggingface.co.", "a1.example", "2606:4700::1"}) {
    CAPTURE(host);
    CHECK_FALSE(names_private(host));
  }
  for (const char* host :
       {"localhost", "localhost.", "a.localhost", "printer.local", "127.0.0.1", "127.0.0.1.",
        "2130706433", "0x7f000001", "127.1", "db.internal", "::1"}) {
    CAPTURE(host);
    CHECK(names_private(host));
  }
}
