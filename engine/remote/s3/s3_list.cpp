// SPDX-License-Identifier: Apache-2.0

#include "remote/s3/s3_list.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/parse_number.hpp"
#include "remote/http/percent_encoding.hpp"
#include "remote/s3/xml_elements.hpp"

namespace ringload::inline v0::remote_http {

namespace {

constexpr std::size_t page_objects_max = 10'000;  // A page from Amazon has at most 1,000 objects.
constexpr std::size_t code_bytes_max = 64;
constexpr std::size_t token_bytes_max = 2048;

// Collects the elements of a ListObjectsV2 response.
class page_reader {
 public:
  result<void> take(const xml_element& element);
  result<s3_page> finish();

 private:
  std::string* find_field(std::string_view name) noexcept;
  result<void> end_object();
  result<void> end_prefix();

  s3_page page_;
  s3_object object_;
  std::string size_;
  std::string prefix_;
  std::string is_truncated_;
  std::string encoding_;
};

fault invalid_page(std::string cause) { return {errc::malformed_answer, "", std::move(cause)}; }

// Returns the path of `element` within the outermost element. Returns an empty optional if the
// outermost element has another name.
std::optional<std::string_view> path_within(std::string_view outermost,
                                            const xml_element& element) noexcept {
  const std::size_t name_end = std::min(element.path.find('/'), element.path.size());
  if (element.path.substr(0, name_end) != outermost) return std::nullopt;
  return element.path.substr(std::min(name_end + 1, element.path.size()));
}

// Returns the destination for the text of an element. Returns null if the text is not used.
std::string* page_reader::find_field(std::string_view name) noexcept {
  if (name == "Contents/Key") return &object_.key;
  if (name == "Contents/ETag") return &object_.etag;
  if (name == "Contents/Size") return &size_;
  if (name == "CommonPrefixes/Prefix") return &prefix_;
  if (name == "IsTruncated") return &is_truncated_;
  if (name == "NextContinuationToken") return &page_.next;
  if (name == "EncodingType") return &encoding_;
  return nullptr;
}

result<void> page_reader::take(const xml_element& element) {
  const auto name = path_within("ListBucketResult", element);
  if (!name) return invalid_page("expected a 'ListBucketResult'");
  if (*name == "Contents") return end_object();
  if (*name == "CommonPrefixes") return end_prefix();
  std::string* const field = find_field(*name);
  if (field == nullptr) return {};
  if (element.has_children) return invalid_page("expected text, found an element");
  *field = element.text;
  return {};
}

result<void> page_reader::end_object() {
  s3_object object = std::exchange(object_, {});
  const std::string size = std::exchange(size_, {});
  if (object.key.empty()) return invalid_page("an object has no key");
  if (size.empty()) return invalid_page("an object has no size");
  const auto bytes = parse_number<std::uint64_t>(size);
  if (!bytes) return invalid_page("the size of an object is not a number");
  object.bytes = *bytes;
  if (page_.objects.size() == page_objects_max) {
    return invalid_page("a page has more than " + grouped(page_objects_max) + " objects");
  }
  page_.objects.push_back(std::move(object));
  return {};
}

result<void> page_reader::end_prefix() {
  if (page_.prefixes.size() == page_objects_max) {
    return invalid_page("a page has more than " + grouped(page_objects_max) + " prefixes");
  }
  page_.prefixes.push_back(std::exchange(prefix_, {}));
  return {};
}

result<void> decode_key(std::string& key) {
  std::ranges::replace(key, '+', ' ');
  auto decoded = percent_decoded(key);
  if (!decoded) return invalid_page("a key: " + decoded.error().cause());
  key = std::move(*decoded);
  return {};
}

result<s3_page> page_reader::finish() {
  if (is_truncated_ != "true") page_.next.clear();
  if (is_truncated_ == "true" && page_.next.empty())
    return invalid_page("the page is truncated but has no token for the next page");
  if (page_.next.size() > token_bytes_max) return invalid_page("the next page's token is too long");
  if (encoding_ != "url") return std::move(page_);
  for (s3_object& object : page_.objects) {
    if (auto decoded = decode_key(object.key); !decoded) return decoded.error();
  }
  for (std::string& prefix : page_.prefixes) {
    if (auto decoded = decode_key(prefix); !decoded) return decoded.error();
  }
  return std::move(page_);
}

// Returns the text if the text may be an error code or a region. Otherwise returns an empty string,
// because callers put the returned text into error texts, which must not show arbitrary text of a
// server.
std::string printable_word(std::string_view text) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.';
  };
  if (text.size() > code_bytes_max || !std::ranges::all_of(text, allowed)) return {};
  return std::string(text);
}

constexpr std::array<std::string_view, 4> credentials_codes = {
    "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken"};

}  // namespace

result<s3_page> parse_s3_page(std::string_view xml) {
  page_reader reader;
  auto parsed = parse_xml(xml, [&](const xml_element& element) { return reader.take(element); });
  if (!parsed) return parsed.error();
  return reader.finish();
}

s3_error parse_s3_error(std::string_view xml) {
  s3_error out;
  // A failure of parse_xml() is ignored, because the body may be truncated. The elements before the
  // failure are used.
  static_cast<void>(parse_xml(xml, [&](const xml_element& element) -> result<void> {
    const auto name = path_within("Error", element);
    if (name == "Code") out.code = printable_word(element.text);
    if (name == "Region") out.region = printable_word(element.text);
    return {};
  }));
  return out;
}

bool is_temporary(const s3_error& error) noexcept {
  return error.code == "InternalError" || error.code == "SlowDown" ||
         error.code == "ServiceUnavailable" || error.code == "RequestTimeout";
}

fault s3_fault(const s3_refusal& response, const std::string& shown) {
  const std::string& code = response.error.code;
  const std::string because = code.empty() ? "" : " (" + code + ")";
  if (!response.error.region.empty() && (response.status == 301 || response.status == 400)) {
    return {errc::remote_failed, shown,
            "the bucket is in the region " + response.error.region + ": set this region"};
  }
  if (code == "NoSuchBucket") return {errc::source_not_found, shown, "there is no such bucket"};
  if (response.status == 404) {
    return {errc::source_not_found, shown, "the bucket has no such object" + because};
  }
  if (code == "RequestTimeTooSkewed") {
    return {errc::access_denied, shown,
            "the server refuses the signature: its clock and this machine's clock differ too much"};
  }
  const bool of_credentials = std::ranges::find(credentials_codes, code) != credentials_codes.end();
  if (response.status == 401 || response.status == 403 || of_credentials) {
    const bool has_reason = !response.was_signed && !response.missing_keys_reason.empty();
    return {errc::access_denied, shown,
            (response.was_signed
                 ? (of_credentials ? "the server does not accept the credentials"
                                   : "these credentials give no access, or there is no such object")
                 : "the object is not public: credentials are required") +
                because + (has_reason ? "; " + response.missing_keys_reason : "")};
  }
  return {errc::remote_failed, shown,
          "the server answered with the status " + std::to_string(response.status) + because};
}

}  // namespace ringload::inline v0::remote_http
