// SPDX-License-Identifier: Apache-2.0

#include "remote/s3/s3_signature.hpp"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <span>

#include "formats/checksum_list.hpp"

namespace ringload::inline v0::remote_http {

namespace {

constexpr std::string_view algorithm = "AWS4-HMAC-SHA256";
constexpr std::size_t sha256_bytes = 32;
constexpr std::size_t stamp_bytes = 16;  // For example "20130524T000000Z".
constexpr std::size_t day_bytes = 8;

using sha256_value = std::array<unsigned char, sha256_bytes>;

std::string hex_of(const sha256_value& bytes) { return hex(std::as_bytes(std::span(bytes))); }

const unsigned char* bytes_of(std::string_view text) noexcept {
  return reinterpret_cast<const unsigned char*>(text.data());
}

sha256_value hmac(std::string_view key, std::string_view text) {
  sha256_value out = {};
  unsigned length = 0;
  ::HMAC(::EVP_sha256(), key.data(), static_cast<int>(key.size()), bytes_of(text), text.size(),
         out.data(), &length);
  return out;
}

sha256_value hmac(const sha256_value& key, std::string_view text) {
  return hmac(std::string_view(reinterpret_cast<const char*>(key.data()), key.size()), text);
}

std::string stamp_of(std::chrono::sys_seconds now) {
  const auto day = std::chrono::floor<std::chrono::days>(now);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss time(now - day);
  std::array<char, stamp_bytes + 16> text = {};
  std::snprintf(text.data(), text.size(), "%04d%02u%02uT%02d%02d%02dZ", int(date.year()),
                unsigned(date.month()), unsigned(date.day()), int(time.hours().count()),
                int(time.minutes().count()), int(time.seconds().count()));
  return text.data();
}

std::string in_lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

// Removes blanks at both ends. Replaces inner sequences of blanks by one blank.
std::string folded(std::string_view value) {
  std::string out;
  for (const char c : value) {
    const bool blank = c == ' ' || c == '\t';
    if (!blank) {
      out += c;
    } else if (!out.empty() && out.back() != ' ') {
      out += ' ';
    }
  }
  if (out.ends_with(' ')) out.pop_back();
  return out;
}

// Adds '=' to parameters without a value: "lifecycle" becomes "lifecycle=".
std::string canonical_query(std::string_view query) {
  std::string out;
  while (!query.empty()) {
    const std::string_view part = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(part.size() + 1, query.size()));
    if (!out.empty()) out += '&';
    out += part;
    if (part.find('=') == part.npos) out += '=';
  }
  return out;
}

struct canonical {
  std::string request;
  std::string signed_names;  // For example "host;range;x-amz-date".
};

canonical canonical_of(const outgoing_request& request, std::span<const header_field> added,
                       std::string_view payload_hash) {
  std::vector<header_field> fields = {{"host", request.to.authority()}};
  for (const auto group : {request.fields, added}) {
    for (const header_field& field : group) {
      fields.push_back({in_lower_case(field.name), folded(field.value)});
    }
  }
  std::ranges::sort(fields, {}, &header_field::name);
  const std::string_view target = request.to.target;
  const std::size_t mark = target.find('?');
  canonical out;
  out.request = std::string(request.method) + "\n" + std::string(target.substr(0, mark)) + "\n";
  if (mark != target.npos) out.request += canonical_query(target.substr(mark + 1));
  out.request += "\n";
  for (const header_field& field : fields) {
    out.request += field.name + ":" + field.value + "\n";
    out.signed_names += (out.signed_names.empty() ? "" : ";") + field.name;
  }
  out.request += "\n" + out.signed_names + "\n" + std::string(payload_hash);
  return out;
}

}  // namespace

std::string sha256_hex(std::string_view bytes) {
  sha256_value out = {};
  unsigned length = 0;
  ::EVP_Digest(bytes.data(), bytes.size(), out.data(), &length, ::EVP_sha256(), nullptr);
  return hex_of(out);
}

std::vector<header_field> sign_s3(const outgoing_request& request,
                                  const s3_credentials& credentials, std::string_view region,
                                  std::chrono::sys_seconds now) {
  const std::string stamp = stamp_of(now);
  const std::string day = stamp.substr(0, day_bytes);
  const std::string scope = day + "/" + std::string(region) + "/s3/aws4_request";
  const std::string payload =
      request.body_sha256.empty() ? sha256_hex("") : std::string(request.body_sha256);
  std::vector<header_field> out = {{"X-Amz-Content-Sha256", payload}, {"X-Amz-Date", stamp}};
  if (!credentials.session_token.empty())
    out.push_back({"X-Amz-Security-Token", credentials.session_token});

  const canonical canonical_request = canonical_of(request, out, payload);
  const std::string to_sign = std::string(algorithm) + "\n" + stamp + "\n" + scope + "\n" +
                              sha256_hex(canonical_request.request);
  const sha256_value key = hmac(
      hmac(hmac(hmac("AWS4" + credentials.secret_access_key, day), region), "s3"), "aws4_request");
  out.push_back({"Authorization", std::string(algorithm) +
                                      " Credential=" + credentials.access_key_id + "/" + scope +
                                      ", SignedHeaders=" + canonical_request.signed_names +
                                      ", Signature=" + hex_of(hmac(key, to_sign))});
  return out;
}

}  // namespace ringload::inline v0::remote_http
