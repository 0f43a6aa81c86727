// SPDX-License-Identifier: Apache-2.0

#include "remote/s3/s3_upload.hpp"

#include <doctest/doctest.h>

using namespace ringload;
using namespace ringload::remote_http;

namespace {

constexpr std::uint64_t mib = std::uint64_t{1} << 20;

}  // namespace

TEST_CASE("s3 parts: a known size has equal parts, at most 10,000") {
  for (const std::uint64_t bytes : {std::uint64_t{1}, 8 * mib, 8 * mib + 1, 80'000 * mib,
                                    80'000 * mib + 1, std::uint64_t{5} << 40}) {
    CAPTURE(bytes);
    const part_layout parts = part_layout::make(bytes, 4 * mib).value();
    const std::uint32_t last = parts.part_at(bytes - 1);
    CHECK(last < part_layout::parts_max);
    CHECK(parts.is_single() == (last == 0));
    CHECK(parts.begin_of(last) + parts.bytes_of(last) == bytes);
    CHECK(parts.bytes_of(0) == std::min(bytes, parts.begin_of(1)));
    CHECK(parts.begin_of(1) % (8 * mib) == 0);
  }
  CHECK(part_layout::make(20 * mib, 16 * mib).value().begin_of(1) == 16 * mib);
  const auto refused = part_layout::make(std::uint64_t{1} << 60, 0);
  REQUIRE(!refused);
  CHECK(refused.error().code == errc::size_overflow);
}

TEST_CASE("s3 parts: of an unknown size, they are adjacent and grow") {
  const part_layout parts = part_layout::make(0, 4 * mib).value();
  std::uint64_t end = 0;
  CHECK(!parts.is_single());
  for (std::uint32_t i = 0; i < part_layout::parts_max; ++i) {
    if (parts.begin_of(i) != end || parts.part_at(end) != i) FAIL(i);
    end += parts.bytes_of(i);
    if (parts.part_at(end - 1) != i) FAIL(i);
  }
  CHECK(parts.bytes_of(0) == 8 * mib);
  CHECK(parts.bytes_of(999) == 8 * mib);
  CHECK(parts.bytes_of(1000) == 16 * mib);
  CHECK(end > std::uint64_t{5} << 40);
  CHECK(parts.bytes_of(part_layout::parts_max - 1) <= part_layout::part_bytes_max);
}

TEST_CASE("s3 upload: addresses have a sorted query") {
  const http_url object = parse_http_url("https://host/b/a%20b.zt").value();
  CHECK(s3_begin_url(object).target == "/b/a%20b.zt?uploads=");
  CHECK(s3_part_url(object, 12, "x/y=").target == "/b/a%20b.zt?partNumber=12&uploadId=x%2Fy%3D");
  CHECK(s3_end_url(object, "id").target == "/b/a%20b.zt?uploadId=id");
}

TEST_CASE("s3 upload: the identifier, or a fault") {
  CHECK(parse_s3_upload_id("<InitiateMultipartUploadResult xmlns=\"x\"><Bucket>b</Bucket>"
                           "<UploadId>a&amp;b</UploadId></InitiateMultipartUploadResult>")
            .value() == "a&b");
  CHECK(parse_s3_upload_id("<InitiateMultipartUpload><UploadId>of rclone</UploadId>"
                           "</InitiateMultipartUpload>")
            .value() == "of rclone");
  for (const char* const wrong :
       {"", "<InitiateMultipartUploadResult/>", "<Error><UploadId>x</UploadId></Error>",
        "<InitiateMultipartUploadResult><UploadId></UploadId></InitiateMultipartUploadResult>"}) {
    CAPTURE(wrong);
    const auto parsed = parse_s3_upload_id(wrong);
    REQUIRE(!parsed);
    CHECK(parsed.error().code == errc::malformed_answer);
  }
}

TEST_CASE("s3 upload: the completion lists the parts, and only a result confirms it") {
  const part_etags etags = {{1, "\"b\""}, {0, "\"a\""}};
  CHECK(s3_completion_body(etags) ==
        "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>\"a\"</ETag></Part>"
        "<Part><PartNumber>2</PartNumber><ETag>\"b\"</ETag></Part></CompleteMultipartUpload>");
  CHECK(
      is_s3_completion("<CompleteMultipartUploadResult><ETag>x</ETag>"
                       "</CompleteMultipartUploadResult>"));
  CHECK(!is_s3_completion("<CompleteMultipartUploadResult><ETag>x</ETag>"));
  CHECK(!is_s3_completion("<Error><Code>InternalError</Code></Error>"));
  CHECK(!is_s3_completion(""));
}

TEST_CASE("s3 upload: the ETag of an object of one PUT is its MD5") {
  const std::string content = "a";
  CHECK(s3_put_etag(std::as_bytes(std::span(content))) == "\"0cc175b9c0f1b6a831c399e269772661\"");
  CHECK(s3_put_etag({}) == "\"d41d8cd98f00b204e9800998ecf8427e\"");
}

TEST_CASE("s3 upload: the ETag of the object is computed from the parts' MD5") {
  // The MD5 of "a" and of "b", and of both MD5 together.
  const part_etags etags = {{0, "\"0cc175b9c0f1b6a831c399e269772661\""},
                            {1, "92eb5ffee6ae2fec3ad71c777531578f"}};
  CHECK(s3_complete_etag(etags) == "\"96e024ba2074fe77e8e965ba43a704be-2\"");
  CHECK(!s3_complete_etag({{0, "\"0cc175b9c0f1b6a831c399e26977266\""}}));
  CHECK(!s3_complete_etag({{0, "\"not an MD5, but thirty-two digits\""}}));
}
