// SPDX-License-Identifier: Apache-2.0

#include "remote/http/response.hpp"

#include <algorithm>
#include <charconv>

namespace ringload::inline v0::remote_http {

namespace {

fault wrong(std::string cause) { return {errc::malformed_answer, "", std::move(cause)}; }

fault changed(std::string cause) { return {errc::changed_file, "", std::move(cause)}; }

// Removes a number from the front of the text. Returns an empty optional if there is no number, or
// if the number is too large.
std::optional<std::uint64_t> take_number(std::string_view& text) noexcept {
  std::uint64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc() || read.ptr == text.data()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(read.ptr - text.data()));
  return number;
}

bool is_equal_ignoring_case(std::string_view a, std::string_view b) noexcept {
  const auto lower = [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  return std::ranges::equal(a, b, {}, lower, lower);
}

// Returns true if the Content-Encoding leaves the bytes of the object unchanged. S3 servers may
// return the "aws-chunked" of the upload, although the stored object is not encoded.
bool is_identity_encoding(std::string_view encodings) {
  while (!encodings.empty()) {
    const std::size_t comma = encodings.find(',');
    std::string_view coding = encodings.substr(0, comma);
    encodings = comma == encodings.npos ? std::string_view() : encodings.substr(comma + 1);
    const auto begin = coding.find_first_not_of(" \t");
    if (begin == coding.npos) continue;
    coding = coding.substr(begin, coding.find_last_not_of(" \t") - begin + 1);
    if (!is_equal_ignoring_case(coding, "identity") &&
        !is_equal_ignoring_case(coding, "aws-chunked")) {
      return false;
    }
  }
  return true;
}

bool take(std::string_view& text, std::string_view token) noexcept {
  if (!text.starts_with(token)) return false;
  text.remove_prefix(token.size());
  return true;
}

std::string_view reason_of(unsigned status) noexcept {
  switch (status) {
    case 400: return " (Bad Request)";
    case 401: return " (Unauthorized): credentials are missing or wrong";
    case 403: return " (Forbidden): the credentials are refused or missing";
    case 404: return " (Not Found)";
    case 407: return " (Proxy Authentication Required)";
    case 408: return " (Request Timeout)";
    case 410: return " (Gone)";
    case 429: return " (Too Many Requests)";
    case 500: return " (Internal Server Error)";
    case 502: return " (Bad Gateway)";
    case 503: return " (Service Unavailable)";
    case 504: return " (Gateway Timeout)";
    default: return "";
  }
}

}  // namespace

const std::string* response_head::field(std::string_view name) const noexcept {
  const auto found = std::ranges::find(fields, name, &header_field::name);
  return found == fields.end() ? nullptr : &found->value;
}

std::optional<content_range> parse_content_range(std::string_view text) noexcept {
  content_range out;
  constexpr std::string_view unit = "bytes ";
  if (!is_equal_ignoring_case(text.substr(0, unit.size()), unit)) return std::nullopt;
  text.remove_prefix(unit.size());
  if (!take(text, "*")) {
    out.first = take_number(text);
    if (!out.first || !take(text, "-")) return std::nullopt;
    const auto last = take_number(text);
    if (!last || *last < *out.first) return std::nullopt;
    out.last = *last;
  }
  if (!take(text, "/")) return std::nullopt;
  if (text == "*") return out.first ? std::optional(out) : std::nullopt;
  out.total = take_number(text);
  if (!out.total || !text.empty()) return std::nullopt;
  if (out.first && out.last >= *out.total) return std::nullopt;
  return out;
}

result<std::uint64_t> check_partial(const response_head& head, const requested_range& requested) {
  if (auto identity = check_identity(head, requested); !identity) return identity.error();
  const std::string* const text = head.field("content-range");
  if (text == nullptr) return wrong("the server sent a range without a Content-Range");
  const auto range = parse_content_range(*text);
  if (!range || !range->first) return wrong("the server sent an invalid Content-Range");
  if (requested.total && range->total && *range->total != *requested.total) {
    return changed("the object had " + grouped(*requested.total) +
                   " bytes when it was opened, but now has " + grouped(*range->total));
  }
  if (*range->first != requested.begin || range->last >= requested.end) {
    return wrong("the server sent another range than requested");
  }
  const std::uint64_t bytes = range->last - *range->first + 1;
  if (head.content_length && *head.content_length != bytes) {
    return wrong("the server's Content-Length is " + grouped(*head.content_length) +
                 ", for a range of " + grouped(bytes) + " bytes");
  }
  return bytes;
}

result<void> check_identity(const response_head& head, const requested_range& requested) {
  const std::string* const encoding = head.field("content-encoding");
  if (encoding != nullptr && !is_identity_encoding(*encoding)) {
    return wrong("the server sent a Content-Encoding that was not requested");
  }
  const std::string* const etag = head.field("etag");
  if (!requested.etag.empty()) {
    if (etag == nullptr || *etag == requested.etag) return {};
    return changed("the object's ETag has changed since the object was opened");
  }
  const std::string* const modified = head.field("last-modified");
  if (requested.modified.empty() || modified == nullptr || *modified == requested.modified)
    return {};
  return changed("the object was modified after it was opened");
}

bool is_strong_etag(std::string_view etag) noexcept {
  return etag.size() >= 2 && etag.front() == '"' && etag.back() == '"';
}

response_kind kind_of(const response_head& head) noexcept {
  switch (head.status) {
    case 200: {
      const std::string* const range = head.field("content-range");
      const bool of_part = range != nullptr && parse_content_range(*range).has_value();
      return of_part ? response_kind::partial : response_kind::whole;
    }
    case 206: return response_kind::partial;
    case 301:
    case 302:
    case 303:
    case 307:
    case 308: return response_kind::redirect;
    case 401:
    case 403: return response_kind::denied;
    case 404:
    case 410: return response_kind::absent;
    case 408:
    case 429:
    case 500:
    case 502:
    case 503:
    case 504: return response_kind::retryable;
    case 412: return response_kind::changed;
    case 416: return response_kind::unsatisfied;
    default: return response_kind::other;
  }
}

fault fault_of(const response_head& head) {
  const std::string message =
      "the server answered " + std::to_string(head.status) + std::string(reason_of(head.status));
  switch (kind_of(head)) {
    case response_kind::denied: return {errc::access_denied, "", message};
    case response_kind::absent: return {errc::source_not_found, "", message};
    case response_kind::changed: return changed("the object was replaced after it was opened");
    case response_kind::unsatisfied:
      return changed("the object has become shorter after it was opened");
    default: return {errc::remote_failed, "", message};
  }
}

}  // namespace ringload::inline v0::remote_http
