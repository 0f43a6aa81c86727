// SPDX-License-Identifier: Apache-2.0
#include "formats/text/cbor_reader.hpp"

#include <doctest/doctest.h>

#include <optional>
#include <string>

#include "binary_text.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace cbor_reading {

// Returns the JSON text of a value, or an empty optional if the value is malformed.
std::optional<std::string> as_json(const std::string& cbor) {
  memory_input from(bytes_of(cbor));
  input_cursor in(from, 0, cbor.size());
  std::string out;
  if (!cbor_reader(in).json(out, 1000) || in.left() != 0) return std::nullopt;
  return out;
}

// Returns true if a value can be skipped.
bool is_skipped(const std::string& cbor) {
  memory_input from(bytes_of(cbor));
  input_cursor in(from, 0, cbor.size());
  return cbor_reader(in).skip_value() && in.left() == 0;
}

}  // namespace cbor_reading

TEST_CASE("cbor_reader: containers without a stated size") {
  using namespace cbor_reading;
  CHECK(as_json("\x9F\x01\x9F\x02\xFF\xFF") == "[1,[2]]");
  CHECK(as_json("\xBF\x61k\x01\x61l\xBF\xFF\xFF") == R"({"k":1,"l":{}})");
  CHECK(is_skipped("\x9F\x01\x9F\x02\xFF\xFF"));
  CHECK(is_skipped("\xBF\x61k\x01\x61l\xBF\xFF\xFF"));
  CHECK(is_skipped("\xBF\x61k\xA1\x61m\x02\x61l\xA0\xFF"));
}

TEST_CASE("cbor_reader: a map that ends after a key is refused") {
  using namespace cbor_reading;
  for (const std::string text : {"\xBF\x61k\xFF", "\xBF\x61k\x01\x61l\xFF", "\xBF\x80\xFF",
                                 "\x81\xBF\x61k\xFF", "\xBF\x61k\xBF\x61l\xFF\xFF"}) {
    CHECK_FALSE(is_skipped(text));
    CHECK_FALSE(as_json(text));
  }
}

TEST_CASE("cbor_reader: a tag needs a value") {
  using namespace cbor_reading;
  CHECK(as_json("\x9F\xC1\x01\xFF") == "[1]");
  CHECK_FALSE(as_json("\x9F\xC1\xFF"));
  CHECK_FALSE(is_skipped("\x9F\xC1\xFF"));
  CHECK_FALSE(is_skipped("\xC1\xC1\xFF"));
}

TEST_CASE("cbor_reader: a simple value below 32 has one byte") {
  using namespace cbor_reading;
  CHECK(as_json("\xF4") == "false");
  CHECK(as_json("\xF5") == "true");
  CHECK(as_json("\xF6") == "null");
  CHECK(as_json("\xF8\x20") == "32");
  for (int value = 0; value < 32; ++value) {
    const std::string text = {'\xF8', static_cast<char>(value)};
    CHECK_FALSE(as_json(text));
    CHECK_FALSE(is_skipped(text));
  }
  CHECK(is_skipped("\xF8\xFF"));
}
