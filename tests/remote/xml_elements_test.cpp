// SPDX-License-Identifier: Apache-2.0
#include "remote/s3/xml_elements.hpp"

#include <doctest/doctest.h>

#include <new>
#include <string>
#include <vector>

using namespace ringload;
using namespace ringload::remote_http;

namespace {

// "path=text" of each element without children, or the message of the fault.
std::vector<std::string> elements_of(std::string_view xml) {
  std::vector<std::string> found;
  const auto parsed = parse_xml(xml, [&](const xml_element& element) -> result<void> {
    if (!element.has_children) {
      found.push_back(std::string(element.path) + "=" + std::string(element.text));
    }
    return {};
  });
  if (parsed) return found;
  CHECK(parsed.error().code == errc::malformed_answer);
  CHECK(parsed.error().where().starts_with("byte "));
  return {message_of(parsed.error())};
}

bool is_refused(std::string_view xml) {
  return parse_xml(xml, [](const xml_element&) { return result<void>(); }).has_error();
}

using texts = std::vector<std::string>;

}  // namespace

TEST_CASE("xml_elements: each element with its path and its text") {
  CHECK(elements_of("<a><b>1</b><c><d>2</d> <e/></c></a>") == texts{"a/b=1", "a/c/d=2", "a/c/e="});
  CHECK(elements_of("<a>x&lt;&gt;&amp;&quot;&apos;&#65;&#x42;&#xe9;</a>") ==
        texts{"a=x<>&\"'AB\xc3\xa9"});
  CHECK(elements_of("\xef\xbb\xbf<?xml version='1.0'?> <a b=\"/>\"> x </a >\n") == texts{"a= x "});
  CHECK(elements_of("<a></a>") == texts{"a="});
  CHECK(elements_of("<a>1<![CDATA[<&>]]>2<!-- 3 --><?p 4?></a>") == texts{"a=1<&>2"});
}

TEST_CASE("xml_elements: what is not well-formed, and what attacks are made of, is refused") {
  for (const std::string_view xml : {"<!DOCTYPE a [<!ENTITY e 'x'>]><a>&e;</a>",
                                     "<!DOCTYPE a><a/>",
                                     "<a>&e;</a>",
                                     "<a>&amp</a>",
                                     "<a>&#0;</a>",
                                     "<a>&#xd800;</a>",
                                     "<a>&#1114112;</a>",
                                     "<a>&#;</a>",
                                     "<a>x</b>",
                                     "<a>x</a>y",
                                     "<a>x</a><b/>",
                                     "<a b='>x</a>",
                                     "<a b=<>x</a>",
                                     "<a\"b\">x</a>",
                                     "<>x</>",
                                     "x",
                                     "<a>",
                                     "",
                                     "<a b='1' b='2'/>",
                                     "<a>\xff</a>",
                                     "<a>\xed\xa0\x80</a>",
                                     "<a>x<b/></a>",
                                     "<a><b/>x</a>"}) {
    CAPTURE(xml);
    CHECK(is_refused(xml));
  }
  CHECK(elements_of("<!DOCTYPE a><a/>")[0].find("DOCTYPE") != std::string::npos);
  CHECK(elements_of("<a>\n<b></c></a>")[0].starts_with("byte 9"));
}

TEST_CASE("xml_elements: the depth is limited") {
  const auto nested = [](unsigned depth) {
    std::string out;
    for (unsigned i = 0; i < depth; ++i) out += "<a>";
    for (unsigned i = 0; i < depth; ++i) out += "</a>";
    return out;
  };
  CHECK(!is_refused(nested(xml_depth_max)));
  CHECK(elements_of(nested(xml_depth_max + 1))[0].find("too deep") != std::string::npos);
}

TEST_CASE("xml_elements: a fault or an exception of the visitor ends the parsing") {
  unsigned calls = 0;
  const auto refused = parse_xml("<a><b/><c/></a>", [&](const xml_element&) -> result<void> {
    ++calls;
    return fault{errc::malformed_answer, "", "not this one"};
  });
  REQUIRE(refused.has_error());
  CHECK(refused.error().cause() == "not this one");
  CHECK(refused.error().where() == "byte 7");  // After the empty element.
  CHECK(calls == 1);
  const auto without_memory = [](const xml_element&) -> result<void> { throw std::bad_alloc(); };
  CHECK_THROWS_AS(static_cast<void>(parse_xml("<a><b/></a>", without_memory)), std::bad_alloc);
}
