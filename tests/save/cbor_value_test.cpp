// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <locale.h>
#include <stdlib.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <ringload/ringload.hpp>
#include <string>

#include "support/skip.hpp"
#include "support/temporary_folder.hpp"

using namespace ringload;

// Functions of LeakSanitizer. Null in a program without it.
extern "C" void __lsan_disable() __attribute__((weak));
extern "C" void __lsan_enable() __attribute__((weak));

namespace {

// While an object of this class exists, the decimal sign of the calling thread is a comma, as in
// Germany. Most machines have no such locale, so the object makes a copy of C.utf8 with a comma.
class decimal_comma {
 public:
  decimal_comma() {
    std::ifstream from("/usr/lib/locale/C.utf8/LC_NUMERIC", std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(from), {}};
    std::ranges::replace(text, '.', ',');
    std::filesystem::create_directory(folder_.path() / "comma");
    std::ofstream(folder_.path() / "comma/LC_NUMERIC", std::ios::binary) << text;
    ::setenv("LOCPATH", folder_.path().c_str(), 1);
    if (__lsan_disable != nullptr) __lsan_disable();  // glibc leaks a copy of LOCPATH.
    locale_ = ::newlocale(LC_NUMERIC_MASK, "comma", nullptr);
    if (__lsan_enable != nullptr) __lsan_enable();
    ::unsetenv("LOCPATH");
    if (locale_ != nullptr) before_ = ::uselocale(locale_);
  }
  decimal_comma(const decimal_comma&) = delete;
  decimal_comma& operator=(const decimal_comma&) = delete;
  ~decimal_comma() {
    if (locale_ == nullptr) return;
    ::uselocale(before_);
    ::freelocale(locale_);
  }

  explicit operator bool() const noexcept { return locale_ != nullptr; }

 private:
  const ringload::testing::temporary_folder folder_;
  ::locale_t locale_ = nullptr;
  ::locale_t before_ = nullptr;
};

}  // namespace

TEST_CASE("attribute: a value is kept as the CBOR that it becomes") {
  CHECK(attribute().encoded() == "\xF6");
  CHECK(attribute("ab").encoded() ==
        "\x62"
        "ab");
  CHECK(attribute(true).encoded() == "\xF5");
  CHECK(attribute(0.5).encoded() == std::string("\xF9\x38\x00", 3));
  CHECK(attribute(5).encoded() == "\x05");
  CHECK(attribute(-5).encoded() == "\x24");
  CHECK(attribute(std::uint64_t{UINT64_MAX}).encoded() == "\x1B" + std::string(8, '\xFF'));
  CHECK(attribute(INT64_MIN).encoded() == "\x3B\x7F" + std::string(7, '\xFF'));
  CHECK_THROWS_AS(attribute("\xFF"), error);
}

TEST_CASE("attribute: JSON, with integers as such") {
  CHECK(attribute::json(R"({"b":[1,-1,1.0,null],"a":{"x":false}})").encoded() ==
        std::string("\xA2\x61"
                    "b\x84\x01\x20\xF9\x3C\x00\xF6\x61"
                    "a\xA1\x61x\xF4",
                    16));
  CHECK(attribute::json("18446744073709551615").encoded() == "\x1B" + std::string(8, '\xFF'));
  CHECK(attribute::json("-9223372036854775808").encoded() == "\x3B\x7F" + std::string(7, '\xFF'));
  CHECK(attribute::json("-9223372036854775809").encoded() == "\xFA\xDF" + std::string(3, '\0'));
  CHECK(attribute::json("0.10000000149011612").text() == "0.10000000149011612");
  CHECK(attribute::json("0.1").text() == "0.1");
  CHECK(attribute::json(" \"x\" ").encoded() == "\x61x");
  CHECK_THROWS_AS(attribute::json("{"), error);
  CHECK_THROWS_AS(attribute::json("1 2"), error);
  CHECK_THROWS_AS(attribute::json(std::string(100, '[') + std::string(100, ']')), error);
}

TEST_CASE("attribute: the numbers of JSON do not depend on the locale") {
  const decimal_comma german;
  if (!german)
    return ringload::testing::skip("this machine's C library reads no locale of the test");
  REQUIRE(::strtod("1,5", nullptr) == 1.5);
  const attribute value = attribute::json("[1.5,-0.25e1]");
  CHECK(value.encoded() == std::string("\x82\xF9\x3E\x00\xF9\xC1\x00", 7));
  CHECK(value.text() == "[1.5,-2.5]");
  CHECK(attribute(1.5).text() == "1.5");
  CHECK(attribute(1'234'567.5).text() == "1234567.5");
}

TEST_CASE("attribute: CBOR must be one whole value") {
  CHECK(attribute::cbor("\x05").encoded() == "\x05");
  CHECK_THROWS_AS(attribute::cbor(""), error);
  CHECK_THROWS_AS(attribute::cbor("\x05\x05"), error);
  CHECK_THROWS_AS(attribute::cbor("\x62"
                                  "a"),
                  error);
}
