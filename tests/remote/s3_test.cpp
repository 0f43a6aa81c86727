// SPDX-License-Identifier: Apache-2.0

// Signatures are compared with the examples of the Amazon S3 API reference: "Signature Calculations
// for the Authorization Header: Transferring Payload in a Single Chunk".

#include <doctest/doctest.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "remote/http/response.hpp"
#include "remote/s3/s3_address.hpp"
#include "remote/s3/s3_list.hpp"
#include "remote/s3/s3_signature.hpp"

using namespace ringload;
using namespace ringload::remote_http;

namespace {

using namespace std::chrono_literals;

const s3_credentials example_credentials = {"AKIAIOSFODNN7EXAMPLE",
                                            "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", ""};
constexpr std::chrono::sys_seconds example_time = std::chrono::sys_days(2013y / 5 / 24);

http_url example_bucket(std::string target) {
  http_url out;
  out.tls = true;
  out.host = "examplebucket.s3.amazonaws.com";
  out.port = 443;
  out.target = std::move(target);
  return out;
}

std::string value_of(const std::vector<header_field>& fields, std::string_view name) {
  for (const header_field& each : fields) {
    if (each.name == name) return each.value;
  }
  return {};
}

std::string authorization(const std::string& target, const std::vector<header_field>& fields,
                          const s3_credentials& by = example_credentials) {
  const http_url to = example_bucket(target);
  return value_of(sign_s3({"GET", to, fields}, by, "us-east-1", example_time), "Authorization");
}

std::string shown_url(const result<http_url>& of) {
  if (!of) return "refused";
  return std::string(of->tls ? "https" : "http") + "://" + of->authority() + of->target;
}

// "bucket:key", or "refused"
std::string parsed_s3(std::string_view text) {
  const auto found = parse_s3_address(text);
  if (found) return found->bucket + ":" + found->key;
  CHECK(found.error().code == errc::invalid_source_name);
  return "refused";
}

std::string page_xml(std::string_view inside) {
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult "
         "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">" +
         std::string(inside) + "</ListBucketResult>\n";
}

std::string page_refusal(std::string_view xml) {
  const auto found = parse_s3_page(xml);
  if (found) return "accepted";
  CHECK(found.error().code == errc::malformed_answer);
  return message_of(found.error());
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != text.npos;
}

}  // namespace

TEST_CASE("s3_signature: a GET of an object is signed as in Amazon's example") {
  CHECK(authorization("/test.txt", {{"Range", "bytes=0-9"}}) ==
        "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
        "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, "
        "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

TEST_CASE("s3_signature: a parameter without a value is signed as in Amazon's example") {
  CHECK(contains(authorization("/?lifecycle", {}),
                 "Signature=fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"));
}

TEST_CASE("s3_signature: a listing is signed as in Amazon's example") {
  CHECK(contains(authorization("/?max-keys=2&prefix=J", {}),
                 "Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"));
}

TEST_CASE("s3_signature: date, hash and session token are among the fields, and signed") {
  s3_credentials temporary = example_credentials;
  temporary.session_token = "AQoDYXdzEJr";
  const http_url to = example_bucket("/x");
  const auto fields =
      sign_s3({"GET", to, {}}, temporary, "eu-west-1", example_time + 13h + 5min + 9s);
  CHECK(value_of(fields, "X-Amz-Date") == "20130524T130509Z");
  CHECK(value_of(fields, "X-Amz-Security-Token") == "AQoDYXdzEJr");
  CHECK(value_of(fields, "X-Amz-Content-Sha256") ==
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  const std::string by = value_of(fields, "Authorization");
  CHECK(contains(by, "/20130524/eu-west-1/s3/aws4_request"));
  CHECK(contains(by, "SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token,"));
  CHECK(!contains(by, "AQoDYXdzEJr"));
  CHECK(!contains(by, temporary.secret_access_key));
}

TEST_CASE("s3_signature: what is signed depends on method, path, query and fields alone") {
  const std::string one = authorization("/x", {});
  CHECK(authorization("/x", {}) == one);
  CHECK(authorization("/y", {}) != one);
  CHECK(authorization("/x", {{"range", "bytes=0-9"}}) ==
        authorization("/x", {{"Range", "  bytes=0-9 "}}));
  const http_url to = example_bucket("/x");
  CHECK(value_of(sign_s3({"HEAD", to, {}}, example_credentials, "us-east-1", example_time),
                 "Authorization") != one);
}

TEST_CASE("s3_address: a bucket, and a key or a prefix in it") {
  CHECK(parse_s3_address("gs://bucket/x", gs_scheme).value().key == "x");
  CHECK(!parse_s3_address("gs://bucket/x"));
  CHECK(parsed_s3("s3://bucket") == "bucket:");
  CHECK(parsed_s3("s3://bucket/") == "bucket:");
  CHECK(parsed_s3("s3://my.bucket-1/a/b c/") == "my.bucket-1:a/b c/");
  CHECK(parsed_s3("s3://bucket/%2F?#") == "bucket:%2F?#");
}

TEST_CASE("s3_address: names that no bucket or key has are refused") {
  for (const std::string_view text :
       {"s3://", "s3://ab", "s3://-abc", "s3://abc-", "s3://a..b", "s3://b@c", "s3://bucket//a",
        "s3://bucket/a//b", "s3://bucket/../x", "s3://bucket/a/..", "s3://bucket/\n", "s3:///x"}) {
    CHECK(parsed_s3(text) == "refused");
  }
  CHECK(parsed_s3("s3://bucket/" + std::string(1024, 'k')) != "refused");
  CHECK(parsed_s3("s3://bucket/" + std::string(1025, 'k')) == "refused");
}

TEST_CASE("s3_address: path style where there is an endpoint or a dot, else host style") {
  const s3_address object = {"bucket", "a/b c.safetensors"};
  CHECK(shown_url(s3_object_url({}, object)) ==
        "https://bucket.s3.us-east-1.amazonaws.com/a/b%20c.safetensors");
  CHECK(shown_url(s3_object_url({"cn-north-1", "", {}}, object)) ==
        "https://bucket.s3.cn-north-1.amazonaws.com.cn/a/b%20c.safetensors");
  CHECK(shown_url(s3_object_url({"eu-west-1", "", true}, object)) ==
        "https://s3.eu-west-1.amazonaws.com/bucket/a/b%20c.safetensors");
  CHECK(shown_url(s3_object_url({}, {"my.bucket", "x"})) ==
        "https://s3.us-east-1.amazonaws.com/my.bucket/x");
  CHECK(shown_url(s3_object_url({"", "http://127.0.0.1:9000", {}}, object)) ==
        "http://127.0.0.1:9000/bucket/a/b%20c.safetensors");
  CHECK(shown_url(s3_object_url({"", "https://store.example/s3/", false}, object)) ==
        "https://bucket.store.example/s3/a/b%20c.safetensors");
  for (const char* bucket : {"MyBucket", "my_bucket"}) {
    CAPTURE(bucket);
    CHECK(shown_url(s3_object_url({}, {bucket, "x"})) ==
          "https://s3.us-east-1.amazonaws.com/" + std::string(bucket) + "/x");
    CHECK(shown_url(s3_object_url({"", "", false}, {bucket, "x"})) == "refused");
  }
  CHECK(shown_url(s3_object_url({"us/../east", "", {}}, object)) == "refused");
  CHECK(shown_url(s3_object_url({"", "ftp://x", {}}, object)) == "refused");
}

TEST_CASE("s3_address: the query of a listing is sorted and encoded once") {
  CHECK(shown_url(s3_list_url({}, "bucket", "a/b+c/", "", s3_depth::one)) ==
        "https://bucket.s3.us-east-1.amazonaws.com/"
        "?delimiter=%2F&encoding-type=url&list-type=2&prefix=a%2Fb%2Bc%2F");
  CHECK(contains(shown_url(s3_list_url({}, "bucket", "", "1/x=", s3_depth::one)),
                 "/?continuation-token=1%2Fx%3D&delimiter="));
}

TEST_CASE("s3_list: a page is its objects, and the token of the next") {
  const auto page = parse_s3_page(page_xml(
      "<Name>bucket</Name><Prefix>m/</Prefix><KeyCount>2</KeyCount><IsTruncated>true</IsTruncated>"
      "<NextContinuationToken>1ueGcxLPRx1Tr/XYExHnhbYLgveDs2J=</NextContinuationToken>"
      "<Contents><Key>m/a&amp;b.safetensors</Key><LastModified>x</LastModified>"
      "<ETag>&quot;9b2c&quot;</ETag><Size>18446744073709551615</Size></Contents>"
      "<Contents><Size>0</Size><Key>m/config.json</Key><Owner><ID>7</ID></Owner></Contents>"
      "<CommonPrefixes><Prefix>m/onnx/</Prefix></CommonPrefixes>"));
  REQUIRE(page.has_value());
  CHECK(page->next == "1ueGcxLPRx1Tr/XYExHnhbYLgveDs2J=");
  REQUIRE(page->objects.size() == 2);
  CHECK(page->objects[0].key == "m/a&b.safetensors");
  CHECK(page->objects[0].bytes == 18446744073709551615U);
  CHECK(page->objects[0].etag == "\"9b2c\"");
  CHECK(page->objects[1].key == "m/config.json");
  CHECK(page->objects[1].bytes == 0);
  CHECK(page->objects[1].etag.empty());
  CHECK(page->prefixes == std::vector<std::string>{"m/onnx/"});
}

TEST_CASE("s3_list: keys are decoded where the page says that they are encoded") {
  const std::string object = "<Contents><Key>m/a%20b+c%2B</Key><Size>1</Size></Contents>";
  CHECK(parse_s3_page(page_xml(object))->objects[0].key == "m/a%20b+c%2B");
  CHECK(parse_s3_page(page_xml(object + "<EncodingType>url</EncodingType>"))->objects[0].key ==
        "m/a b c+");
  CHECK(page_refusal(page_xml("<EncodingType>url</EncodingType>"
                              "<Contents><Key>%4</Key><Size>1</Size></Contents>")) != "accepted");
}

TEST_CASE("s3_list: a page that breaks the protocol is refused") {
  CHECK(page_refusal(page_xml("")) == "accepted");
  CHECK(page_refusal("<ListBucketResult/>") == "accepted");
  CHECK(page_refusal("") != "accepted");
  CHECK(page_refusal("<html></html>") != "accepted");
  CHECK(page_refusal("\xff") != "accepted");
  CHECK(page_refusal(page_xml("") + "x") != "accepted");
  CHECK(contains(page_refusal(page_xml("<Contents><Size>1</Size></Contents>")), "no key"));
  CHECK(contains(page_refusal(page_xml("<Contents><Key>a</Key></Contents>")), "no size"));
  CHECK(contains(page_refusal(page_xml("<Contents><Key>a</Key><Size>-1</Size></Contents>")),
                 "not a number"));
  CHECK(contains(page_refusal(page_xml("<Contents><Key>a</Key><Size>1 </Size></Contents>")),
                 "not a number"));
  CHECK(contains(page_refusal(page_xml("<Contents><Key><b>a</b></Key><Size>1</Size></Contents>")),
                 "found an element"));
  CHECK(contains(page_refusal(page_xml("<Contents/>")), "no key"));
  CHECK(contains(page_refusal(page_xml("text<Contents/>")), "beside"));
  // The fields of one object do not affect the next object.
  CHECK(contains(page_refusal(page_xml("<Contents><Key>a</Key><Size>1</Size></Contents>"
                                       "<Contents><Key>b</Key></Contents>")),
                 "no size"));
  CHECK(contains(page_refusal(page_xml("<IsTruncated>true</IsTruncated>")), "no token"));
  CHECK(contains(page_refusal(page_xml("<IsTruncated>true</IsTruncated><NextContinuationToken>" +
                                       std::string(2049, 't') + "</NextContinuationToken>")),
                 "too long"));
}

TEST_CASE("s3_list: every beginning of a page is refused") {
  const std::string whole = page_xml("<Contents a='1'><Key>a&#65;</Key><Size>1</Size></Contents>");
  CHECK(page_refusal(whole) == "accepted");
  for (std::size_t bytes = 0; bytes + 1 < whole.size(); ++bytes) {
    CHECK(page_refusal(whole.substr(0, bytes)) != "accepted");
  }
}

TEST_CASE("s3_list: an error of S3 gives its code and the bucket's region, and no more") {
  const s3_error moved = parse_s3_error(
      "<?xml version=\"1.0\"?><Error><Code>AuthorizationHeaderMalformed</Code><Message>m</Message>"
      "<Region>eu-west-1</Region><AWSAccessKeyId>AKIA</AWSAccessKeyId></Error>");
  CHECK(moved.code == "AuthorizationHeaderMalformed");
  CHECK(moved.region == "eu-west-1");
  CHECK(parse_s3_error("<Error><Code>a b\x1b[31m</Code></Error>").code.empty());
  CHECK(parse_s3_error("<html>").code.empty());
  CHECK(parse_s3_error("").code.empty());
  CHECK(contains(message_of(s3_fault({400, moved, true}, "s3://bucket/x")), "eu-west-1"));
}

TEST_CASE("s3_list: a refusal says what can be done") {
  const auto refused = [](unsigned status, std::string_view code, bool was_signed) {
    return s3_fault({status, {std::string(code), ""}, was_signed}, "s3://bucket/x");
  };
  CHECK(refused(404, "NoSuchBucket", true).code == errc::source_not_found);
  CHECK(refused(404, "NoSuchKey", true).code == errc::source_not_found);
  CHECK(refused(403, "AccessDenied", false).code == errc::access_denied);
  CHECK(contains(message_of(refused(403, "AccessDenied", false)), "credentials are required"));
  CHECK(contains(message_of(refused(403, "SignatureDoesNotMatch", true)), "does not accept"));
  CHECK(refused(400, "ExpiredToken", true).code == errc::access_denied);
  CHECK(contains(message_of(refused(403, "RequestTimeTooSkewed", true)), "clock"));
  CHECK(refused(500, "InternalError", true).code == errc::remote_failed);
  CHECK(contains(message_of(refused(500, "", true)), "s3://bucket/x"));
}

TEST_CASE("s3: an answer of 200 that has a range is a part, as rclone's server gives it") {
  response_head head;
  head.status = 200;
  head.content_length = 10;
  head.fields = {{"content-range", "bytes 90-99/1000"}};
  CHECK(kind_of(head) == response_kind::partial);
  CHECK(check_partial(head, {90, 100, 1000, "", ""}).value() == 10);
  CHECK(!check_partial(head, {80, 100, 1000, "", ""}).has_value());
  CHECK(!check_partial(head, {90, 100, 999, "", ""}).has_value());
  head.content_length = 1000;
  CHECK(!check_partial(head, {90, 100, 1000, "", ""}).has_value());
  head.fields = {{"content-range", "none"}};
  CHECK(kind_of(head) == response_kind::whole);
  head.fields.clear();
  CHECK(kind_of(head) == response_kind::whole);
}

TEST_CASE("s3: the Content-Encoding of an upload does not change the bytes of a response") {
  response_head head;
  for (const char* const encoding : {"aws-chunked", "AWS-Chunked", "aws-chunked,", "identity",
                                     "Identity", " aws-chunked , identity ", ""}) {
    CAPTURE(encoding);
    head.fields = {{"content-encoding", encoding}};
    CHECK(check_identity(head, {}).has_value());
  }
  for (const char* const encoding : {"gzip", "aws-chunked,gzip", "gzip, aws-chunked", "chunked"}) {
    CAPTURE(encoding);
    head.fields = {{"content-encoding", encoding}};
    const auto refused = check_identity(head, {});
    REQUIRE(!refused.has_value());
    CHECK(refused.error().code == errc::malformed_answer);
  }
}

TEST_CASE("s3: the unit of a Content-Range is accepted in upper and lower case") {
  for (const char* const text : {"bytes 0-9/10", "Bytes 0-9/10", "BYTES 0-9/10"}) {
    CAPTURE(text);
    const auto range = parse_content_range(text);
    REQUIRE(range.has_value());
    CHECK(range->total == 10);
  }
  for (const char* const text : {"", "bytes", "items 0-9/10", "bytes0-9/10"}) {
    CAPTURE(text);
    CHECK(!parse_content_range(text).has_value());
  }
}
