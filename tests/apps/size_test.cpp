// SPDX-License-Identifier: Apache-2.0
#include "size.hpp"

#include <doctest/doctest.h>

#include <limits>

using ringload::tool::binary_size;
using ringload::tool::both_sizes;
using ringload::tool::counted;
using ringload::tool::grouped;
using ringload::tool::parse_number;
using ringload::tool::parse_size;

TEST_CASE("size: a plain number is a number of bytes") {
  CHECK(parse_size("0") == 0);
  CHECK(parse_size("4096") == 4096);
  CHECK(parse_size("17B") == 17);
  CHECK(parse_size("18446744073709551615") == std::numeric_limits<std::uint64_t>::max());
}

TEST_CASE("size: K, M, G, T and KiB to TiB count in steps of 1,024") {
  CHECK(parse_size("64K") == 65'536);
  CHECK(parse_size("64KiB") == 65'536);
  CHECK(parse_size("2m") == 2'097'152);
  CHECK(parse_size("4GiB") == 4'294'967'296);
  CHECK(parse_size("1T") == 1'099'511'627'776);
}

TEST_CASE("size: KB, MB, GB, TB count in steps of 1,000") {
  CHECK(parse_size("1KB") == 1000);
  CHECK(parse_size("8GB") == 8'000'000'000);
  CHECK(parse_size("2tb") == 2'000'000'000'000);
}

TEST_CASE("size: a fraction is exact, and what is left of a byte is dropped") {
  CHECK(parse_size("1.5M") == 1'572'864);
  CHECK(parse_size("0.25K") == 256);
  CHECK(parse_size("0.3K") == 307);  // 307.2
  CHECK(parse_size("0.000001T") == 1'099'511);
  CHECK(parse_size("1.9") == 1);
}

TEST_CASE("size: anything else is refused") {
  for (const char* text :
       {"",      "K",   "-1",   "+1",  " 1",   "1 ", "1 K",   "1.",         ".5K", "1..5K",
        "1.2.3", "1e6", "0x10", "1Ki", "1KBs", "1P", "1,000", "1.0000001K", "inf", "1.-5K"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_size(text).has_value());
  }
}

TEST_CASE("size: what does not fit in 64 bits is refused, and not wrapped") {
  CHECK(parse_size("16777215T") == 18'446'742'974'197'923'840U);
  CHECK_FALSE(parse_size("16777216T").has_value());
  CHECK_FALSE(parse_size("18446744073709551616").has_value());
  CHECK_FALSE(parse_size("99999999999999999999G").has_value());
  CHECK(parse_size("16777215.999999T").has_value());
}

TEST_CASE("number: only decimal digits are one") {
  CHECK(parse_number("007") == 7);
  for (const char* text : {"", "-1", "+1", " 1", "1 ", "1.0", "1K", "0x1"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_number(text).has_value());
  }
}

TEST_CASE("numbers for eyes: groups of three, and binary units") {
  CHECK(grouped(0) == "0");
  CHECK(grouped(999) == "999");
  CHECK(grouped(1000) == "1,000");
  CHECK(grouped(1'509'296) == "1,509,296");
  CHECK(counted(1, "file") == "1 file");
  CHECK(counted(0, "file") == "0 files");
  CHECK(counted(1200, "file") == "1,200 files");

  CHECK(both_sizes(1'509'296) == "1,509,296 bytes (1.4 MiB)");
  CHECK(both_sizes(1) == "1 byte");
  CHECK(binary_size(1023) == "1023 B");
  CHECK(binary_size(1024) == "1.0 KiB");
  CHECK(binary_size(1'509'296) == "1.4 MiB");
  // 1,023.99 MiB would be rounded to "1024.0 MiB".
  CHECK(binary_size((std::uint64_t{1} << 30) - 1) == "1.0 GiB");
  CHECK(binary_size(std::numeric_limits<std::uint64_t>::max()) == "16.0 EiB");
}
