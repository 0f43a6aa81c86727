// SPDX-License-Identifier: Apache-2.0
#include "formats/text/cbor_writer.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <string>

#include "binary_text.hpp"
#include "formats/text/cbor_reader.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace cbor_writing {

template <class Write>
std::string written(Write&& write) {
  std::string out;
  cbor_writer to(out);
  write(to);
  return out;
}

std::string number(std::uint64_t value) {
  return written([value](cbor_writer& to) { to.unsigned_integer(value); });
}

std::string integer(std::int64_t value) {
  return written([value](cbor_writer& to) { to.integer(value); });
}

std::string floating(double value) {
  return written([value](cbor_writer& to) { to.floating(value); });
}

// The result of the reader.
std::string as_json(const std::string& cbor) {
  memory_input from(bytes_of(cbor));
  input_cursor in(from, 0, cbor.size());
  std::string out;
  const bool good = cbor_reader(in).json(out, 1000);
  return good && in.left() == 0 ? out : "refused";
}

}  // namespace cbor_writing

TEST_CASE("cbor_writer: a number takes the fewest bytes that hold it") {
  using namespace cbor_writing;
  CHECK(number(0) == std::string(1, '\0'));
  CHECK(number(23) == "\x17");
  CHECK(number(24) == "\x18\x18");
  CHECK(number(0xFF) == "\x18\xFF");
  CHECK(number(0x100) == std::string("\x19\x01\x00", 3));
  CHECK(number(0xFFFF) == "\x19\xFF\xFF");
  CHECK(number(0x10000) == std::string("\x1A\x00\x01\x00\x00", 5));
  CHECK(number(0xFFFFFFFF) == "\x1A\xFF\xFF\xFF\xFF");
  CHECK(number(0x100000000) == std::string("\x1B\x00\x00\x00\x01\x00\x00\x00\x00", 9));
  CHECK(number(UINT64_MAX) == "\x1B" + std::string(8, '\xFF'));
}

TEST_CASE("cbor_writer: -1 is stored as 0, and the lowest number fits") {
  using namespace cbor_writing;
  CHECK(integer(5) == "\x05");
  CHECK(integer(-1) == "\x20");
  CHECK(integer(-24) == "\x37");
  CHECK(integer(-25) == "\x38\x18");
  CHECK(integer(INT64_MIN) == "\x3B\x7F" + std::string(7, '\xFF'));
}

TEST_CASE("cbor_writer: a floating-point number has the fewest bits that keep it") {
  using namespace cbor_writing;
  CHECK(floating(0.5) == std::string("\xF9\x38\x00", 3));
  CHECK(floating(-0.0) == std::string("\xF9\x80\x00", 3));
  CHECK(floating(65504) == std::string("\xF9\x7B\xFF", 3));
  CHECK(floating(65505) == std::string("\xFA\x47\x7F\xE1\x00", 5));
  CHECK(floating(0x1p-24) == std::string("\xF9\x00\x01", 3));
  CHECK(floating(0x1p-25) == std::string("\xFA\x33\x00\x00\x00", 5));
  CHECK(floating(0.1) == "\xFB\x3F\xB9\x99\x99\x99\x99\x99\x9A");
  CHECK(floating(1e300) == "\xFB\x7E\x37\xE4\x3C\x88" + std::string("\x00\x75\x9C", 3));
  CHECK(floating(std::numeric_limits<double>::infinity()) == std::string("\xF9\x7C\x00", 3));
  CHECK(floating(-std::numeric_limits<double>::quiet_NaN()) == std::string("\xF9\x7E\x00", 3));
}

TEST_CASE("cbor_writer: what it writes is read again") {
  using namespace cbor_writing;
  const std::string cbor = written([](cbor_writer& to) {
    to.map(3);
    to.text("a");
    to.array(4);
    to.boolean(true);
    to.boolean(false);
    to.null();
    to.integer(-300);
    to.text("b\xC3\xA9");
    to.bytes(std::as_bytes(std::span("\x01\xAB", 2)));
    to.text("c");
    to.encoded(floating(1.25));
  });
  CHECK(as_json(cbor) == R"({"a":[true,false,null,-300],"bé":"01ab","c":1.25})");
}
