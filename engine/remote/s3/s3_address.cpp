// SPDX-License-Identifier: Apache-2.0

#include "remote/s3/s3_address.hpp"

#include <algorithm>
#include <utility>

#include "base/printable.hpp"
#include "catalog/hub_address.hpp"
#include "remote/http/percent_encoding.hpp"

namespace ringload::inline v0::remote_http {

namespace {

constexpr std::size_t bucket_bytes_min = 3;
// Names of new buckets have at most 63 characters. Buckets from before 2018 may have longer names.
constexpr std::size_t bucket_bytes_max = 255;
constexpr std::size_t key_bytes_max = 1024;

fault refused(std::string cause) { return {errc::invalid_source_name, "", std::move(cause)}; }

bool is_capital(char c) noexcept { return c >= 'A' && c <= 'Z'; }

bool is_alphanumeric(char c) noexcept {
  return (c >= 'a' && c <= 'z') || is_capital(c) || (c >= '0' && c <= '9');
}

// Names of old buckets may have capitals and '_'.
bool is_bucket(std::string_view name) noexcept {
  const auto allowed = [](char c) {
    return is_alphanumeric(c) || c == '-' || c == '.' || c == '_';
  };
  return name.size() >= bucket_bytes_min && name.size() <= bucket_bytes_max &&
         std::ranges::all_of(name, allowed) && is_alphanumeric(name.front()) &&
         is_alphanumeric(name.back()) && name.find("..") == name.npos;
}

// S3 allows keys with a part that is empty, "." or "..". ringload refuses such a key, because
// joining a folder and a name would remove the part.
bool has_odd_part(std::string_view key) noexcept {
  while (!key.empty()) {
    const std::size_t slash = key.find('/');
    const std::string_view part = key.substr(0, slash);
    if (part.empty() || part == "." || part == "..") return true;
    key = slash == key.npos ? std::string_view() : key.substr(slash + 1);
  }
  return false;
}

bool is_region(std::string_view name) noexcept {
  return name.size() <= 64 &&
         std::ranges::all_of(name, [](char c) { return is_alphanumeric(c) || c == '-'; });
}

// Returns the address of the bucket's root. The path ends with '/'.
result<http_url> bucket_url(const s3_place& place, const std::string& bucket) {
  const std::string region(region_of(place));
  if (!is_region(region))
    return refused("the region '" + printable(region) + "' is not a valid region name");
  std::string endpoint = place.endpoint;
  if (endpoint.empty()) {
    endpoint = "https://s3." + region + ".amazonaws.com";
    if (region.starts_with("cn-")) endpoint += ".cn";
  }
  auto url = parse_http_url(endpoint);
  if (!url) return url.error();
  if (url->target.find('?') != url->target.npos)
    return refused("the endpoint has a query; expected scheme, host, port and path");
  if (!url->target.ends_with('/')) url->target += '/';
  // A host name has no capitals and no '_'. The wildcard certificate of an endpoint is not valid
  // for the host of a bucket with a '.' in its name.
  const bool is_host =
      std::ranges::none_of(bucket, [](char c) { return is_capital(c) || c == '_'; });
  const bool dotted = bucket.find('.') != bucket.npos;
  if (place.path_style.value_or(!place.endpoint.empty() || dotted || !is_host)) {
    url->target += percent_encoded(bucket) + "/";
  } else if (!is_host) {
    return refused("the name of the bucket needs path_style, because it has a capital or a '_'");
  } else {
    std::string host = bucket + "." + url->host;
    std::ranges::transform(host, host.begin(), [](char c) {
      return is_capital(c) ? static_cast<char>(c - 'A' + 'a') : c;
    });
    url->host = std::move(host);
  }
  return url;
}

}  // namespace

result<s3_address> parse_s3_address(std::string_view text, std::string_view scheme) {
  if (!begins_with_scheme(text, scheme)) {
    return refused("expected an address that begins with " + std::string(scheme));
  }
  text.remove_prefix(scheme.size());
  const std::size_t slash = text.find('/');
  s3_address out;
  out.bucket = text.substr(0, slash);
  if (slash != text.npos) out.key = text.substr(slash + 1);
  if (!is_bucket(out.bucket)) return refused("invalid bucket name");
  if (out.key.size() > key_bytes_max) return refused("the key has more than 1,024 bytes");
  if (has_control_character(out.key)) return refused("the key holds a control character");
  if (has_odd_part(out.key)) return refused("a part of the key is empty, '.' or '..'");
  return out;
}

std::string_view region_of(const s3_place& place) noexcept {
  return place.region.empty() ? s3_default_region : std::string_view(place.region);
}

result<http_url> s3_object_url(const s3_place& place, const s3_address& object) {
  auto url = bucket_url(place, object.bucket);
  if (url) url->target += percent_encoded_path(object.key);
  return url;
}

result<http_url> s3_list_url(const s3_place& place, const std::string& bucket,
                             std::string_view prefix, std::string_view token, s3_depth depth) {
  auto url = bucket_url(place, bucket);
  if (!url) return url;
  // A signed query must be sorted by name.
  url->target += "?";
  if (!token.empty()) url->target += "continuation-token=" + percent_encoded(token) + "&";
  if (depth == s3_depth::one) url->target += "delimiter=%2F&";
  url->target += "encoding-type=url&list-type=2&prefix=" + percent_encoded(prefix);
  return url;
}

}  // namespace ringload::inline v0::remote_http
