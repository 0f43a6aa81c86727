// SPDX-License-Identifier: Apache-2.0
#include "remote/s3/s3_list.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "base/printable.hpp"
#include "base/utf8.hpp"
#include "remote/http/percent_encoding.hpp"
#include "remote/s3/xml_reader.hpp"

namespace ringload::inline v0::remote_http {

namespace {

constexpr std::size_t page_objects_max = 10'000;  // Pages of Amazon have 1,000.
constexpr std::size_t code_bytes_max = 64;
constexpr std::size_t token_bytes_max = 2048;

std::optional<std::uint64_t> whole_number(std::string_view text) noexcept {
  std::uint64_t out = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (failed != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return out;
}

class page_reader {
 public:
  explicit page_reader(std::string_view xml) : in_(xml) {}

  bool read();
  result<s3_page> take();
  fault at_fault() const {
    const std::string cause = cause_.empty() ? in_.cause() : cause_;
    return {errc::malformed_answer, "byte " + grouped(in_.position()), cause};
  }

 private:
  bool read_object();
  bool read_prefix();
  bool fail(std::string cause) {
    cause_ = std::move(cause);
    return false;
  }

  xml_reader in_;
  s3_page out_;
  bool truncated_ = false;
  bool encoded_ = false;
  std::string cause_;
};

bool page_reader::read() {
  std::string_view name;
  std::string text;
  if (!in_.root(name)) return false;
  if (name != "ListBucketResult") return fail("expected a 'ListBucketResult'");
  while (in_.next_child(name)) {
    bool parsed = false;
    if (name == "Contents") {
      parsed = read_object();
    } else if (name == "CommonPrefixes") {
      parsed = read_prefix();
    } else if (name == "IsTruncated") {
      parsed = in_.text(text);
      truncated_ = text == "true";
    } else if (name == "NextContinuationToken") {
      parsed = in_.text(out_.next);
    } else if (name == "EncodingType") {
      parsed = in_.text(text);
      encoded_ = text == "url";
    } else {
      parsed = in_.skip();
    }
    if (!parsed) return false;
  }
  if (in_.failed() || !in_.end()) return false;
  if (truncated_ && out_.next.empty())
    return fail("the page is truncated but has no token for the next page");
  if (out_.next.size() > token_bytes_max) return fail("the next page's token is too long");
  if (!truncated_) out_.next.clear();
  return true;
}

bool page_reader::read_object() {
  s3_object next;
  bool sized = false;
  std::string_view name;
  std::string text;
  while (in_.next_child(name)) {
    bool parsed = false;
    if (name == "Key") {
      parsed = in_.text(next.key);
    } else if (name == "ETag") {
      parsed = in_.text(next.etag);
    } else if (name == "Size") {
      if (!in_.text(text)) return false;
      const auto bytes = whole_number(text);
      if (!bytes) return fail("the size of an object is not a number");
      next.bytes = *bytes;
      parsed = sized = true;
    } else {
      parsed = in_.skip();
    }
    if (!parsed) return false;
  }
  if (in_.failed()) return false;
  if (next.key.empty()) return fail("an object has no key");
  if (!sized) return fail("an object has no size");
  if (out_.objects.size() == page_objects_max) {
    return fail("a page has more than " + grouped(page_objects_max) + " objects");
  }
  out_.objects.push_back(std::move(next));
  return true;
}

bool page_reader::read_prefix() {
  std::string_view name;
  std::string text;
  while (in_.next_child(name)) {
    const bool parsed = name == "Prefix" ? in_.text(text) : in_.skip();
    if (!parsed) return false;
  }
  if (in_.failed()) return false;
  if (out_.prefixes.size() == page_objects_max) {
    return fail("a page has more than " + grouped(page_objects_max) + " prefixes");
  }
  out_.prefixes.push_back(std::move(text));
  return true;
}

result<void> decode_key(std::string& key) {
  std::ranges::replace(key, '+', ' ');
  auto decoded = percent_decoded(key);
  if (!decoded) return fault{errc::malformed_answer, "", "a key: " + decoded.error().cause};
  key = std::move(*decoded);
  return {};
}

result<s3_page> page_reader::take() {
  result<void> outcome;
  if (!encoded_) return std::move(out_);
  for (s3_object& object : out_.objects) {
    if (outcome) outcome = decode_key(object.key);
  }
  for (std::string& prefix : out_.prefixes) {
    if (outcome) outcome = decode_key(prefix);
  }
  if (!outcome) return outcome.error();
  return std::move(out_);
}

// Returns the text if it may name a code or a region, else an empty string: errors show the text.
std::string word(std::string_view text) {
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
  if (const std::size_t valid = utf8_valid_bytes(xml); valid != xml.size()) {
    return fault{errc::malformed_answer, "byte " + grouped(valid), "invalid UTF-8"};
  }
  page_reader reader(xml);
  if (!reader.read()) return reader.at_fault();
  return reader.take();
}

s3_error parse_s3_error(std::string_view xml) {
  s3_error out;
  if (utf8_valid_bytes(xml) != xml.size()) return out;
  xml_reader in(xml);
  std::string_view name;
  std::string text;
  if (!in.root(name) || name != "Error") return out;
  while (in.next_child(name)) {
    if (name == "Code" || name == "Region") {
      if (!in.text(text)) break;
      (name == "Code" ? out.code : out.region) = word(text);
    } else if (!in.skip()) {
      break;
    }
  }
  return out;
}

fault s3_fault(const s3_refusal& answer, const std::string& shown) {
  const std::string& code = answer.error.code;
  const std::string because = code.empty() ? "" : " (" + code + ")";
  if (!answer.error.region.empty() && (answer.status == 301 || answer.status == 400)) {
    return {errc::remote_failed, shown,
            "the bucket is in the region " + answer.error.region + ": give that region"};
  }
  if (code == "NoSuchBucket") return {errc::source_not_found, shown, "there is no such bucket"};
  if (answer.status == 404) {
    return {errc::source_not_found, shown, "the bucket has no such object" + because};
  }
  if (code == "RequestTimeTooSkewed") {
    return {errc::access_denied, shown,
            "the server refuses the signature: its clock and this machine's clock differ too much"};
  }
  const bool of_credentials = std::ranges::find(credentials_codes, code) != credentials_codes.end();
  if (answer.status == 401 || answer.status == 403 || of_credentials) {
    const bool has_reason = !answer.was_signed && !answer.missing_keys_reason.empty();
    return {errc::access_denied, shown,
            (answer.was_signed
                 ? (of_credentials ? "the server does not accept the credentials"
                                   : "these credentials give no access, or there is no such object")
                 : "the object is not public: give credentials") +
                because + (has_reason ? "; " + answer.missing_keys_reason : "")};
  }
  return {errc::remote_failed, shown,
          "the server answered with the status " + std::to_string(answer.status) + because};
}

}  // namespace ringload::inline v0::remote_http
