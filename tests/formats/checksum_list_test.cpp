// SPDX-License-Identifier: Apache-2.0
#include "formats/checksum_list.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

using namespace ringload;

namespace {

const std::string crc = "crc32c 0123abcd";
const std::string sha = "sha256 " + std::string(64, 'e');

// The message of the fault, or an empty string.
std::string wrong_with(std::string_view text) {
  const auto parsed = parse_checksum_text(text, "m.sums");
  if (parsed) return "";
  CHECK(parsed.error().code == errc::malformed_checksum_list);
  return message_of(parsed.error());
}

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("checksum_list: a line has an algorithm, its digits, two spaces and a name") {
  const checksum_list m = parse_checksum_list(crc + "  a\n" + sha + "  b.weight\n", "here");
  REQUIRE(m.tensors.size() == 2);
  CHECK(m.place == "here");
  CHECK(m.tensors[0].name == "a");
  CHECK(m.tensors[0].algorithm == digest_algorithm::crc32c);
  CHECK(hex(m.tensors[0].bytes) == "0123abcd");
  CHECK(m.tensors[1].name == "b.weight");
  CHECK(m.tensors[1].algorithm == digest_algorithm::sha256);
  CHECK(m.tensors[1].bytes.size() == 32);
  CHECK_FALSE(m.sha256);
}

TEST_CASE("checksum_list: empty lines and comments are left out, and the last line needs no end") {
  CHECK(parse_checksum_list("").tensors.empty());
  CHECK(parse_checksum_list("\n\n# of 2026\n").tensors.empty());
  CHECK(parse_checksum_list("# x\n\n" + crc + "  a").tensors.size() == 1);
}

TEST_CASE("checksum_list: names may begin or end with spaces, be empty, and hold any character") {
  for (const std::string name : {"", " a ", "a  b", "#a", "\\", "a\nb", "\t\r\x01\x7f", "\\n", "é",
                                 "w\xC2\x85", "\xC2\x80\xC2\x9F\xC2\xA0\xC2", "\x85"}) {
    tensor_digest one;
    one.name = name;
    one.algorithm = digest_algorithm::crc32c;
    one.bytes.assign(4, std::byte{7});
    const std::string line = checksum_line(one);
    CAPTURE(line);
    CHECK(std::count(line.begin(), line.end(), '\n') == 1);
    const checksum_list back = parse_checksum_list(line);
    REQUIRE(back.tensors.size() == 1);
    CHECK(back.tensors[0].name == name);
    CHECK(back.tensors[0].bytes == one.bytes);
  }
}

TEST_CASE("checksum_list: digits may be upper-case") {
  CHECK(hex(parse_checksum_list("crc32c 0123ABCD  a").tensors[0].bytes) == "0123abcd");
}

TEST_CASE("checksum_list: what is wrong names the place, the line and the reason") {
  const std::string good = crc + "  a\n";
  const std::string first = wrong_with(good + "md5 0123  b\n");
  CHECK(holds(first, "m.sums: line 2: "));
  CHECK(holds(first, "'md5'"));
  CHECK(holds(wrong_with(good + "\n# x\nnonsense\n"), "line 4"));
  CHECK(holds(wrong_with("crc32c 0123abc  a\n"), "8 hexadecimal digits"));
  CHECK(holds(wrong_with("crc32c 0123abcde  a\n"), "8 hexadecimal digits"));
  CHECK(holds(wrong_with("crc32c 0123abcg  a\n"), "8 hexadecimal digits"));
  CHECK(holds(wrong_with("crc32c g123abcd  a\n"), "8 hexadecimal digits"));
  CHECK(holds(wrong_with("sha256 0123abcd  a\n"), "64 hexadecimal digits"));
  CHECK(holds(wrong_with("crc32c"), "8 hexadecimal digits"));
  CHECK(holds(wrong_with("crc32c \n"), "8 hexadecimal digits"));
  CHECK(holds(wrong_with(crc + "\n"), "name"));
  CHECK(holds(wrong_with(crc + " a\n"), "hexadecimal digits"));
  CHECK(holds(wrong_with(" " + good), "unknown algorithm"));
  CHECK(holds(wrong_with("\\\n"), "unknown algorithm"));
}

TEST_CASE("checksum_list: a control character must be escaped, so a file with \\r\\n is refused") {
  CHECK(holds(wrong_with(crc + "  a\r\n"), "control character"));
  CHECK(holds(wrong_with(crc + "  a\x01\n"), "control character"));
}

TEST_CASE("checksum_list: an escape that is none is refused") {
  for (const std::string end : {"\\", "\\q", "\\x", "\\x0", "\\xg0"}) {
    CHECK(holds(wrong_with("\\" + crc + "  a" + end + "\n"), "escape"));
  }
}

TEST_CASE("checksum_list: a tensor that stands in it twice is refused, by its name") {
  CHECK(holds(wrong_with(crc + "  a\n" + crc + "  b\n" + sha + "  a\n"), "line 3: tensor 'a'"));
}

TEST_CASE("checksum_list: what parse_checksum_list throws is the fault") {
  try {
    parse_checksum_list("x\n", "there");
    FAIL("was accepted");
  } catch (const error& e) {
    CHECK(e.code() == errc::malformed_checksum_list);
    CHECK(e.place() == "there: line 1");
  }
}
