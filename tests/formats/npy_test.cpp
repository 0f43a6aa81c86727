// SPDX-License-Identifier: Apache-2.0
#include "formats/npy/npy.hpp"

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include "support/zip_text.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

// An array whose header is that dictionary.
std::string npy_text(std::string_view dictionary, std::string_view data = {}, char version = 1) {
  std::string text(dictionary);
  while ((10 + text.size() + 1) % 64 != 0) text += ' ';
  text += '\n';
  return std::string("\x93NUMPY") + version + '\0' + number(text.size(), version == 1 ? 2 : 4) +
         text + std::string(data);
}

std::string described(std::string_view descr, std::string_view shape, std::string_view order) {
  return "{'descr': '" + std::string(descr) + "', 'fortran_order': " + std::string(order) +
         ", 'shape': " + std::string(shape) + ", }";
}

std::string array(std::string_view descr, std::string_view shape, std::size_t bytes,
                  std::string_view order = "False") {
  return npy_text(described(descr, shape, order), std::string(bytes, '\1'));
}

result<file_entries> parsed(const std::string& file, const read_options& how = {}) {
  memory_input from(bytes_of(file));
  return parse_npy(from, "w", how);
}

boost::system::error_code code_of(const std::string& file, const read_options& how = {}) {
  const auto found = parsed(file, how);
  if (found) return {};
  CHECK(message_of(found.error()).find('\n') == std::string::npos);
  return found.error().code;
}

boost::system::error_code code_of_dictionary(std::string_view dictionary) {
  return code_of(npy_text(dictionary, std::string(8, '\0')));
}

entry only(const std::string& file, const read_options& how = {}) {
  const auto found = parsed(file, how);
  REQUIRE(found.has_value());
  REQUIRE(found->tensors.size() == 1);
  return found->tensors[0];
}

result<file_entries> parsed_npz(const std::string& archive) {
  memory_input from(bytes_of(archive));
  auto members = read_zip_directory(from);
  REQUIRE(members.has_value());
  return parse_npz(from, *members, {});
}

zip_part deflated_member(std::string name, std::string_view content) {
  zip_part out{std::move(name), deflated(content)};
  out.bytes = out.local_bytes = content.size();
  out.method = out.local_method = 8;
  out.crc = crc32(bytes_of(content), 0);
  return out;
}

using dims = std::vector<std::uint64_t>;

}  // namespace

TEST_CASE("npy: an array is the bytes behind its header, under the name of its file") {
  const std::string file = array("<f4", "(2, 3)", 24);
  const entry w = only(file);
  CHECK(w.name == "w");
  CHECK(w.dtype == dtype::f32);
  CHECK(w.shape == dims{2, 3});
  CHECK(w.offset == file.size() - 24);
  CHECK(w.bytes == 24);
  CHECK(w.stored == nullptr);
}

TEST_CASE("npy: every type of numbers is read, and swapped where it is big-endian") {
  struct row {
    std::string_view text;
    ringload::dtype type;
    unsigned bytes;
    unsigned swap;
  };
  for (const row& each : std::vector<row>{{"b1", dtype::boolean, 1, 0},
                                          {"i1", dtype::i8, 1, 0},
                                          {"u1", dtype::u8, 1, 0},
                                          {"i2", dtype::i16, 2, 2},
                                          {"u2", dtype::u16, 2, 2},
                                          {"f2", dtype::f16, 2, 2},
                                          {"i4", dtype::i32, 4, 4},
                                          {"u4", dtype::u32, 4, 4},
                                          {"f4", dtype::f32, 4, 4},
                                          {"i8", dtype::i64, 8, 8},
                                          {"u8", dtype::u64, 8, 8},
                                          {"f8", dtype::f64, 8, 8},
                                          {"c8", dtype::c64, 8, 4},
                                          {"c16", dtype::c128, 16, 8}}) {
    CAPTURE(each.text);
    for (const char order : {'<', '=', '|', '>'}) {
      const entry t = only(array(order + std::string(each.text), "(3,)", 3 * each.bytes));
      CHECK(t.dtype == each.type);
      CHECK(t.bytes == 3 * each.bytes);
      const bool swapped = order == '>' && each.swap != 0;
      REQUIRE((t.stored != nullptr) == swapped);
      if (swapped) CHECK(t.stored->swap_bytes == each.swap);
    }
  }
}

TEST_CASE("npy: objects, text, dates and structures are refused by name") {
  const auto text_of = [](const std::string& dictionary) {
    const auto refused = parsed(npy_text(dictionary, std::string(64, '\0')));
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().code == errc::unsupported_feature);
    return message_of(refused.error());
  };
  const auto names = [&](std::string_view descr, std::string_view word) {
    return text_of(described(descr, "(1,)", "False")).find(word) != std::string::npos;
  };
  CHECK(names("|O", "objects"));
  CHECK(names("<U4", "text"));
  CHECK(names("|S4", "strings"));
  CHECK(names("<M8[ns]", "dates"));
  CHECK(names("<m8[s]", "dates"));
  CHECK(names("|V8", "without a type"));
  CHECK(names("<f16", "unknown"));
  CHECK(names("<c32", "unknown"));
  CHECK(text_of("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }")
            .find("structures") != std::string::npos);
  CHECK(text_of("{'descr': ('<f4', (2,)), 'fortran_order': False, 'shape': (1,), }")
            .find("structures") != std::string::npos);
}

TEST_CASE("npy: what ml_dtypes writes is read when it is said what it is") {
  CHECK(code_of(array("<V2", "(2,)", 4)) == errc::unsupported_feature);
  CHECK(code_of(array("<V1", "(2,)", 2)) == errc::unsupported_feature);
  CHECK(code_of(array("<f1", "(2,)", 2)) == errc::unsupported_feature);
  read_options how;
  how.nameless = {dtype::f8_e4m3fn, dtype::bf16};
  CHECK(only(array("<V2", "(2,)", 4), how).dtype == dtype::bf16);
  CHECK(only(array("|V1", "(2,)", 2), how).dtype == dtype::f8_e4m3fn);
  CHECK(only(array("<f1", "(2,)", 2), how).dtype == dtype::f8_e5m2);
  CHECK(only(array(">V2", "(2,)", 4), how).stored->swap_bytes == 2);
  CHECK(code_of(array("<V3", "(2,)", 6), how) == errc::unsupported_feature);
}

TEST_CASE("npy: an option for unnamed dtypes with a type of another width is named in the error") {
  read_options options;
  options.nameless = {dtype::f32, dtype::f8_e4m3fn};
  const auto cause_of = [&](const std::string& file) {
    const auto found = parsed(file, options);
    REQUIRE_FALSE(found.has_value());
    CHECK(found.error().code == errc::unsupported_feature);
    return message_of(found.error());
  };
  CHECK(cause_of(array("|V1", "(2,)", 2)).find("a type of 32 bits, expected 8") !=
        std::string::npos);
  CHECK(cause_of(array("<V2", "(2,)", 4)).find("a type of 8 bits, expected 16") !=
        std::string::npos);
}

TEST_CASE("npy: Fortran order is told by strides, where it makes a difference") {
  const entry t = only(array("<i2", "(2, 3, 4)", 48, "True"));
  REQUIRE(t.stored != nullptr);
  REQUIRE(t.stored->pieces.size() == 1);
  const piece& whole = t.stored->pieces[0];
  CHECK(whole.stride_bytes == dims{2, 4, 12});
  CHECK(whole.extent == t.shape);
  CHECK(whole.first_byte == 0);
  CHECK(whole.stored.offset == t.offset);
  CHECK(whole.stored.bytes == 48);
  for (const std::string_view shape : {"()", "(3,)", "(1, 3)", "(3, 1, 1)", "(0, 3)"}) {
    CAPTURE(shape);
    const std::size_t bytes = shape == "()" ? 2 : shape == "(0, 3)" ? 0 : 6;
    CHECK(only(array("<i2", shape, bytes, "True")).stored == nullptr);
  }
}

TEST_CASE("npy: the three versions, and keys in any order") {
  const std::string keys = "{'shape': (2,), 'fortran_order': False, \"descr\": '<i2'}";
  for (const char version : {'\1', '\2', '\3'}) {
    CHECK(only(npy_text(keys, "abcd", version)).bytes == 4);
  }
  CHECK(code_of(npy_text(keys, "abcd", '\4')) == errc::unsupported_feature);
  CHECK(code_of(npy_text(keys, "abcd", '\0')) == errc::unsupported_feature);
  CHECK(only(npy_text("{'descr':'<i2','fortran_order':False,'shape':(2L, 1L)}", "abcd")).shape ==
        dims{2, 1});
  CHECK(only(npy_text("\f{u'descr': u\"<i2\",\r\n u'fortran_order':\tFalse, 'shape': (2,)}\r",
                      "abcd"))
            .shape == dims{2});
}

TEST_CASE("npy: a header that is no such dictionary is refused") {
  for (const std::string_view bad :
       {"",
        "[]",
        "{",
        "{}",
        "{'descr': '<f8', 'fortran_order': False}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1,), 'more': 1}",
        "{'descr': '<f8', 'descr': '<f8', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<f8', 'fortran_order': 0, 'shape': (1,)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': [1]}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (-1,)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1.0,)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (,)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1 1)}",
        "{'descr': '<f8' 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1,)} + x",
        "{'descr': '<\\x66', 'fortran_order': False, 'shape': (1,)}",
        "{u 'descr': '<f8', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': b'<f8', 'fortran_order': False, 'shape': (1,)}",
        "{u",
        "{'descr': 'f', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': 'float64', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': __import__('os').system('x'), 'fortran_order': False, 'shape': (1,)}"}) {
    CAPTURE(bad);
    CHECK(code_of_dictionary(bad) == errc::malformed_header);
  }
}

TEST_CASE("npy: sizes that do not fit in 64 bits, or in the file, are refused") {
  const auto of_shape = [](std::string_view shape) { return code_of(array("<f8", shape, 64)); };
  CHECK(of_shape("(18446744073709551616,)") == errc::size_overflow);
  CHECK(of_shape("(4294967296, 4294967296)") == errc::size_overflow);
  CHECK(of_shape("(2305843009213693952,)") == errc::size_overflow);
  CHECK(of_shape("(9,)") == errc::extent_outside_file);
  CHECK(of_shape("(1152921504606846976,)") == errc::extent_outside_file);
  CHECK(of_shape("(7,)") == errc::trailing_bytes);
  CHECK(of_shape("(8,)") == boost::system::error_code{});
  read_options reference;
  reference.strictness = strictness::reference;
  CHECK(code_of(array("<f8", "(7,)", 64), reference) == boost::system::error_code{});
  std::string many = "(";
  for (int i = 0; i < 65; ++i) many += "1, ";
  CHECK(code_of(array("<f8", many + ")", 8)) == errc::malformed_header);
}

TEST_CASE("npy: a header that is cut short, or too long, is refused") {
  const std::string file = array("<f8", "(1,)", 8);
  for (const std::size_t bytes : {0U, 5U, 6U, 9U, 10U, 11U, 100U}) {
    CAPTURE(bytes);
    CHECK(code_of(file.substr(0, bytes)) != boost::system::error_code{});
  }
  std::string large = "\x93NUMPY\2" + std::string(1, '\0') + number(0xFFFFFFFF, 4);
  CHECK(code_of(large) == errc::header_too_large);
  CHECK(code_of(npy_text(std::string(65'000, ' '), {}, 2)) == errc::malformed_header);
}

TEST_CASE("npz: stored arrays are told by their extents, deflated ones by their stream") {
  const std::string a = array("<f4", "(2, 3)", 24);
  const std::string b = array(">i2", "(100, 50)", 10'000, "True");
  const std::string archive =
      zip_text({{"a.npy", a}, deflated_member("layer/b.npy", b), {"readme.txt", "text"}});
  const auto found = parsed_npz(archive);
  REQUIRE(found.has_value());
  REQUIRE(found->tensors.size() == 2);
  const entry& first = found->tensors[0];
  CHECK(first.name == "a");
  CHECK(first.stored == nullptr);
  CHECK(archive.substr(first.offset, first.bytes) == std::string(24, '\1'));

  const entry& second = found->tensors[1];
  CHECK(second.name == "layer/b");
  CHECK(second.bytes == 10'000);
  REQUIRE(second.stored != nullptr);
  const piece& whole = second.stored->pieces[0];
  CHECK(whole.stored.stored_codec == codec::deflate);
  CHECK(whole.stored.decoded_bytes == b.size());
  CHECK(whole.stored.crc32 == crc32(bytes_of(b), 0));
  CHECK(whole.first_byte == b.size() - 10'000);
  CHECK(whole.stride_bytes == dims{2, 200});
  CHECK(second.stored->swap_bytes == 2);
  CHECK(second.offset == whole.stored.offset);
  REQUIRE(found->notes.size() == 1);
  CHECK(found->notes[0].find("readme.txt") != std::string::npos);
}

TEST_CASE("npz: a header of many kilobytes inside a deflated member is read whole") {
  const std::string dictionary = described("<f4", "(1,)", "False");
  const std::string member = npy_text(dictionary + std::string(60'000, ' '), "abcd", 2);
  const auto found = parsed_npz(zip_text({deflated_member("a.npy", member)}));
  REQUIRE(found.has_value());
  CHECK(found->tensors[0].stored->pieces[0].first_byte == member.size() - 4);
}

TEST_CASE("npz: members that are damaged, or smaller than they say, are refused by name") {
  const auto refused = [](const zip_part& member) {
    const auto found = parsed_npz(zip_text({member}));
    REQUIRE_FALSE(found.has_value());
    CHECK(message_of(found.error()).find("tensor 'a'") == 0);
    return found.error().code;
  };
  CHECK(refused({"a.npy", "no array"}) == errc::malformed_header);
  CHECK(refused({"a.npy", array("<f8", "(2,)", 8)}) == errc::extent_outside_file);
  CHECK(refused({"a.npy", array("<f8", "(1,)", 9)}) == errc::trailing_bytes);
  CHECK(refused(deflated_member("a.npy", array("<f8", "(2,)", 8))) == errc::extent_outside_file);
  CHECK(refused({"a.npy", array("<f8", "(1,)", 8).substr(0, 50)}) == errc::header_outside_file);
  zip_part damaged = deflated_member("a.npy", array("<f8", "(1,)", 8));
  damaged.stored[0] = '\xFF';
  CHECK(refused(damaged) == errc::malformed_header);
  // An array of 40 GB of zeros in a small member. Deflate can reach this ratio, so the array is
  // refused because of its size.
  CHECK(refused(deflated_member("a.npy", array("<f8", "(5368709120,)", 8))) ==
        errc::extent_outside_file);
}

TEST_CASE("npz: an archive without arrays") {
  CHECK(parsed_npz(zip_text({}))->tensors.empty());
  CHECK(parsed_npz(zip_text({{"a.txt", "text"}})).error().code == errc::not_a_checkpoint);
}
