// SPDX-License-Identifier: Apache-2.0
#include "formats/zip/zip.hpp"

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include "support/zip_text.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

struct answer {
  boost::system::error_code code;
  std::string text;
};

answer answer_to(const std::string& archive) {
  memory_input from(bytes_of(archive));
  const auto found = read_zip_directory(from);
  if (found) return {};
  const std::string text = message_of(found.error());
  CHECK(text.find('\n') == std::string::npos);
  return {found.error().code, text};
}

boost::system::error_code code_of(const std::string& archive) { return answer_to(archive).code; }

zip_part part(std::string name, std::string content = "some bytes") {
  return {std::move(name), std::move(content)};
}

zip_part deflated_part(std::string name, std::string_view content) {
  zip_part out{std::move(name), deflated(content)};
  out.bytes = out.local_bytes = content.size();
  out.method = out.local_method = 8;
  out.crc = crc32(bytes_of(content), 0);
  return out;
}

// An extra field with these numbers of 64 bits.
std::string zip64_extra(std::initializer_list<std::uint64_t> numbers) {
  std::string out = number(1, 2) + number(8 * numbers.size(), 2);
  for (const std::uint64_t each : numbers) out += number(each, 8);
  return out;
}

}  // namespace

TEST_CASE("zip: members are found where their bytes lie, stored and deflated") {
  const std::string text(1000, 'x');
  std::string archive = zip_text({part("a/b", "stored"), deflated_part("c", text), part("d", "")});
  for (const bool wide : {false, true}) {
    CAPTURE(wide);
    archive =
        zip_text({part("a/b", "stored"), deflated_part("c", text), part("d", "")}, {.wide = wide});
    memory_input from(bytes_of(archive));
    const auto found = read_zip_directory(from);
    REQUIRE(found.has_value());
    REQUIRE(found->members.size() == 3);
    const zip_member& a = found->members[0];
    CHECK(a.name == "a/b");
    CHECK(archive.substr(a.data_offset, a.stored_bytes) == "stored");
    CHECK(a.stored_codec == codec::raw);
    const zip_member* c = found->find("c");
    REQUIRE(c != nullptr);
    CHECK(c->stored_codec == codec::deflate);
    CHECK(c->bytes == 1000);
    CHECK(c->stored_bytes < 200);
    CHECK(c->stream().decoded_bytes == 1000);
    CHECK(found->find("missing") == nullptr);
    const auto content = read_zip_member(from, *c, 1000);
    REQUIRE(content.has_value());
    CHECK(content->size() == 1000);
    CHECK(content->back() == std::byte{'x'});
    CHECK(read_zip_member(from, *c, 999).error().code == errc::header_too_large);
  }
}

TEST_CASE("zip: an archive without members, and one with a comment") {
  CHECK(code_of(zip_text({})) == boost::system::error_code{});
  CHECK(code_of(zip_text({part("a")}, {.comment = "a comment"})) == boost::system::error_code{});
  CHECK(code_of(zip_text({part("a")}, {.comment = std::string(65'535, 'c')})) ==
        boost::system::error_code{});
}

TEST_CASE("zip: sizes that follow the data are taken from the directory, as PyTorch needs it") {
  zip_part late = part("data.pkl");
  late.flags = late.local_flags = 0x808;
  late.local_bytes = 0;
  const std::string archive = zip_text({late});
  // The local header's stored size and checksum are 0 as well.
  std::string zeroed = archive;
  zeroed.replace(14, 8, std::string(8, '\0'));
  CHECK(code_of(zeroed) == boost::system::error_code{});
  // Without the flag, they must be equal to the values of the directory.
  late.flags = late.local_flags = 0;
  CHECK(code_of(zip_text({late})) == errc::malformed_header);
  // With the flag, no other values are allowed.
  late.flags = late.local_flags = 8;
  late.local_bytes = 5;
  CHECK(code_of(zip_text({late})) == errc::malformed_header);
}

TEST_CASE("zip: numbers of zip64 are read from the extra fields, as NumPy writes them") {
  zip_part wide = part("x.npy");
  wide.local_extra = zip64_extra({10, 10});
  wide.local_bytes = 0xFFFFFFFF;
  std::string archive = zip_text({wide});
  archive.replace(18, 4, number(0xFFFFFFFF, 4));
  CHECK(code_of(archive) == boost::system::error_code{});
  // The values of the extra field must agree too.
  std::string other = archive;
  other.replace(other.find(wide.local_extra) + 4, 1, "\x0B");
  CHECK(code_of(other) == errc::malformed_header);

  zip_part far = part("x.npy");
  far.central_extra = zip64_extra({0});
  std::string moved = zip_text({far});
  const std::size_t central = moved.find("PK\x01\x02");
  moved.replace(central + 42, 4, number(0xFFFFFFFF, 4));
  CHECK(code_of(moved) == boost::system::error_code{});
  // A number is missing in the extra field.
  moved.replace(central + 24, 4, number(0xFFFFFFFF, 4));
  CHECK(code_of(moved) == errc::malformed_header);
}

TEST_CASE("zip: what is cut short, or no archive at all") {
  const std::string archive = zip_text({part("a"), part("b")});
  CHECK(code_of("") == errc::malformed_header);
  CHECK(code_of("PK\x03\x04") == errc::malformed_header);
  for (const std::size_t bytes : {archive.size() - 1, archive.size() - 22, archive.size() / 2}) {
    CHECK(code_of(archive.substr(0, bytes)) == errc::malformed_header);
  }
  CHECK(code_of(archive + "x") == errc::malformed_header);
  CHECK(code_of("x" + archive) == errc::malformed_header);
}

TEST_CASE("zip: something before, between or behind its parts is refused") {
  // A prefix that the offsets include, as in a self-extracting archive.
  zip_part first = part("a");
  first.moved = 4;
  CHECK(code_of(zip_text({part("a")}, {.before = "gap"})) == errc::malformed_header);
  std::string archive = "#!sh" + zip_text({first});
  const std::size_t end = archive.rfind("PK\x05\x06");
  archive.replace(end + 16, 4, number(archive.find("PK\x01\x02"), 4));
  const answer refused = answer_to(archive);
  CHECK(refused.code == errc::malformed_header);
  CHECK(refused.text.find("expected byte 0") != std::string::npos);
}

TEST_CASE("zip: the count of members is exact") {
  const std::vector<zip_part> two = {part("a"), part("b")};
  CHECK(code_of(zip_text(two, {.members = 1})) == errc::malformed_header);
  CHECK(code_of(zip_text(two, {.members = 3})) == errc::malformed_header);
  CHECK(code_of(zip_text(two, {.members = 65'000})) == errc::malformed_header);
  CHECK(code_of(zip_text(two, {.members = ~std::uint64_t{0}, .wide = true})) ==
        errc::header_too_large);
}

TEST_CASE("zip: encryption, patches, other methods and volumes are refused by name") {
  for (const unsigned flag : {1U, 1U << 6, 1U << 13, 1U << 5}) {
    CAPTURE(flag);
    zip_part bad = part("a");
    bad.flags = static_cast<std::uint16_t>(flag);
    bad.local_flags = 0;
    CHECK(code_of(zip_text({bad})) == errc::unsupported_feature);
    std::swap(bad.flags, bad.local_flags);
    CHECK(code_of(zip_text({bad})) == errc::unsupported_feature);
  }
  for (const std::uint16_t method : {std::uint16_t{9}, std::uint16_t{12}, std::uint16_t{93}}) {
    zip_part bad = part("a");
    bad.method = bad.local_method = method;
    CHECK(answer_to(zip_text({bad})).text.find("method " + std::to_string(method)) !=
          std::string::npos);
  }
  std::string volumes = zip_text({part("a")});
  volumes[volumes.size() - 18] = 1;
  CHECK(code_of(volumes) == errc::malformed_header);
}

TEST_CASE("zip: headers that contradict each other are refused") {
  zip_part bad = part("a");
  bad.local_name = "b";
  CHECK(code_of(zip_text({bad})) == errc::malformed_header);
  bad.local_name = "aa";
  CHECK(code_of(zip_text({bad})) == errc::malformed_header);
  bad = part("a");
  bad.local_method = 8;
  CHECK(code_of(zip_text({bad})) == errc::malformed_header);
  bad = part("a");
  bad.local_bytes = 9;
  CHECK(code_of(zip_text({bad})) == errc::malformed_header);
  bad = part("a");
  bad.bytes = 11;
  CHECK(code_of(zip_text({bad})) == errc::malformed_header);
  bad = part("a");
  bad.moved = 1;
  CHECK(code_of(zip_text({bad})) == errc::malformed_header);
  bad = part("a");
  bad.central_extra = "abc";
  CHECK(code_of(zip_text({bad})) == errc::malformed_header);
}

TEST_CASE("zip: names that stand twice, lead out, are empty or no text are refused") {
  CHECK(code_of(zip_text({part("a"), part("a")})) == errc::duplicate_tensor);
  using namespace std::string_literals;
  for (const std::string& name :
       {""s, "../a"s, "a/../b"s, "/a"s, "a\\..\\b"s, "\\a"s, "a\0b"s, "\xFF"s}) {
    CAPTURE(name);
    CHECK(code_of(zip_text({part(name)})) == errc::malformed_header);
  }
  CHECK(code_of(zip_text({part("a..b"), part("..."), part("\xC3\xA4")})) ==
        boost::system::error_code{});
}

TEST_CASE("zip: members that overlap are refused: the bomb of overlapping files") {
  // Both entries of the directory refer to the first member, or the second member begins inside the
  // first.
  zip_part second = part("b");
  second.moved = -static_cast<std::int64_t>(zip_text({part("a")}).find("PK\x01\x02"));
  second.local_name = "a";
  CHECK(code_of(zip_text({part("a"), second})) == errc::invalid_offsets);

  const std::string inner = zip_text({part("b", "inner")});
  zip_part inside = part("b", "inner");
  const std::string outer_data = inner.substr(0, inner.find("PK\x01\x02")) + "rest";
  zip_part outer = part("a", outer_data);
  inside.moved = -static_cast<std::int64_t>(outer_data.size());
  CHECK(code_of(zip_text({outer, inside})) == errc::invalid_offsets);
}

TEST_CASE("zip: members past the directory are refused") {
  zip_part far = part("a");
  far.moved = 1'000'000;
  CHECK(code_of(zip_text({far})) != boost::system::error_code{});
  zip_part longer = part("a");
  std::string archive = zip_text({longer});
  const std::size_t central = archive.find("PK\x01\x02");
  for (const std::size_t at : {std::size_t{18}, std::size_t{22}, central + 20, central + 24}) {
    archive.replace(at, 4, number(11, 4));
  }
  CHECK(code_of(archive) == errc::invalid_offsets);
}

TEST_CASE("zip: bombs are refused by what they say, before anything is inflated") {
  // More bytes than deflate can produce.
  zip_part liar = deflated_part("a", "text");
  liar.bytes = liar.local_bytes = 1'000'000;
  CHECK(code_of(zip_text({liar})) == errc::malformed_header);
  zip_part nothing{"a", ""};
  nothing.method = nothing.local_method = 8;
  CHECK(code_of(zip_text({nothing})) == boost::system::error_code{});
  nothing.bytes = nothing.local_bytes = 16;
  CHECK(code_of(zip_text({nothing})) == errc::malformed_header);

  // Forty members of 100 KB that inflate to 100 MB each, a ratio that deflate can reach.
  std::vector<zip_part> bomb;
  for (unsigned i = 0; i < 40; ++i) {
    zip_part each{std::to_string(i), std::string(100'000, 'z')};
    each.method = each.local_method = 8;
    each.bytes = each.local_bytes = 100'000'000;
    bomb.push_back(each);
  }
  CHECK(code_of(zip_text(bomb)) == errc::header_too_large);
  bomb.resize(10);  // 1,000,000,000 bytes: anybody's zeros.
  CHECK(code_of(zip_text(bomb)) == boost::system::error_code{});
}

TEST_CASE("zip: a member that is read whole has its size and its checksum") {
  const auto refused = [](const zip_part& bad) {
    const std::string archive = zip_text({bad});
    memory_input from(bytes_of(archive));
    const auto found = read_zip_directory(from);
    REQUIRE(found.has_value());
    const auto content = read_zip_member(from, found->members[0], 1'000'000);
    return content ? boost::system::error_code{} : content.error().code;
  };
  const std::string text(300, 't');
  CHECK(refused(deflated_part("a", text)) == boost::system::error_code{});
  zip_part bad = deflated_part("a", text);
  bad.crc ^= 1;
  CHECK(refused(bad) == errc::malformed_header);
  bad = part("a");
  bad.crc ^= 1;
  CHECK(refused(bad) == errc::malformed_header);
  bad.crc = 0;  // PyTorch can omit checksums.
  CHECK(refused(bad) == boost::system::error_code{});
  for (const std::uint64_t bytes : {299U, 301U}) {
    bad = deflated_part("a", text);
    bad.bytes = bad.local_bytes = bytes;
    CHECK(refused(bad) == errc::malformed_header);
  }
  bad = deflated_part("a", text);
  bad.stored += "more";
  CHECK(refused(bad) == errc::malformed_header);
  bad = deflated_part("a", text);
  bad.stored[0] = '\xFF';
  CHECK(refused(bad) == errc::malformed_header);
}
