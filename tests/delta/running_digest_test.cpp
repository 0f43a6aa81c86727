// SPDX-License-Identifier: Apache-2.0

#include "delta/running_digest.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace ringload;

namespace {

std::string digest_of(checksum_kind kind, const std::string& text, std::size_t step) {
  const auto bytes = std::as_bytes(std::span(text));
  running_digest digest(kind, bytes);
  for (std::size_t end = 0; end <= bytes.size(); end += step) digest.advance(end);
  return digest.finish();
}

}  // namespace

TEST_CASE("running_digest: has the values of the reference implementations") {
  // Python: zlib.adler32 and xxhash.xxh3_128.
  const std::string large(100'000, '\xff');
  for (const std::size_t step : {1U, 7U, 5'552U, 1'000'000U}) {
    CHECK(digest_of(checksum_kind::crc32c, "123456789", step) == "crc32c e3069283");
    CHECK(digest_of(checksum_kind::adler32, "", step) == "adler32 00000001");
    CHECK(digest_of(checksum_kind::adler32, "Wikipedia", step) == "adler32 11e60398");
    CHECK(digest_of(checksum_kind::adler32, large, step) == "adler32 149a302c");
    CHECK(digest_of(checksum_kind::xxh3_128, "Wikipedia", step) ==
          "xxh3-128 33d468536730462c812e3ed6c425b7ea");
    CHECK(digest_of(checksum_kind::xxh3_128, large, step) ==
          "xxh3-128 5d74b8642dececa782a318cde10d32c1");
  }
}

TEST_CASE("running_digest: a text begins with the name of its algorithm") {
  CHECK(checksum_kind_of("adler32 00000001") == checksum_kind::adler32);
  CHECK(checksum_kind_of("xxh3-128") == checksum_kind::xxh3_128);
  CHECK(checksum_kind_of("crc32c 00000000") == checksum_kind::crc32c);
  CHECK(!checksum_kind_of("blake3 00"));
  CHECK(!checksum_kind_of(""));
}
