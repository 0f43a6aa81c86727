// SPDX-License-Identifier: Apache-2.0

#include "remote/http/url.hpp"

#include <algorithm>
#include <vector>

#include "base/parse_number.hpp"
#include "base/printable.hpp"
#include "catalog/hub_address.hpp"
#include "remote/http/percent_encoding.hpp"

namespace ringload::inline v0::remote_http {

namespace {

constexpr std::size_t url_bytes_max = 8192;

// The fault does not contain the text, because the text may contain a credential.
fault invalid(const char* cause) { return {errc::invalid_source_name, "", cause}; }

char lower(char c) noexcept { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool is_scheme(std::string_view text) noexcept {
  const auto letter = [](char c) { return lower(c) >= 'a' && lower(c) <= 'z'; };
  const auto inside = [&](char c) {
    return letter(c) || (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
  };
  return !text.empty() && letter(text.front()) && std::ranges::all_of(text, inside);
}

bool is_host(const std::string& host, bool bracketed) noexcept {
  const auto in_name = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_';
  };
  const auto in_brackets = [](char c) {
    return (c >= 'a' && c <= 'f') || (c >= '0' && c <= '9') || c == ':' || c == '.';
  };
  if (host.empty() || host.size() > 253) return false;
  return bracketed ? std::ranges::all_of(host, in_brackets) : std::ranges::all_of(host, in_name);
}

result<void> parse_authority(std::string_view text, http_url& out) {
  if (text.find('@') != text.npos)
    return invalid("the address holds a user name, which is not supported");
  std::string_view host = text;
  std::string_view port;
  const bool bracketed = text.starts_with('[');
  const std::size_t host_end = bracketed ? text.find(']') : text.find(':');
  if (bracketed && host_end == text.npos) return invalid("a bracket is not closed");
  if (host_end != text.npos) {
    host = bracketed ? text.substr(1, host_end - 1) : text.substr(0, host_end);
    port = text.substr(host_end + (bracketed ? 1 : 0));
  }
  out.host.resize(host.size());
  std::ranges::transform(host, out.host.begin(), lower);
  if (!is_host(out.host, bracketed)) return invalid("invalid host");
  out.port = out.tls ? 443 : 80;
  if (port.empty() || port == ":") return {};
  if (port.front() != ':') return invalid("invalid host");
  const auto number = parse_number<std::uint16_t>(port.substr(1));
  if (!number || *number == 0) return invalid("invalid port");
  out.port = *number;
  return {};
}

// Removes the parts "." and ".." (RFC 3986, 5.2.4). The path must begin with '/'.
std::string without_dots(std::string_view path) {
  std::vector<std::string_view> segments;
  std::size_t begin = 1;
  for (;;) {
    const std::size_t end = path.find('/', begin);
    const std::string_view part = path.substr(begin, end == path.npos ? path.npos : end - begin);
    const bool last = end == path.npos;
    if (part == "..") {
      if (!segments.empty()) segments.pop_back();
      if (last) segments.emplace_back();
    } else if (part == ".") {
      if (last) segments.emplace_back();
    } else {
      segments.push_back(part);
    }
    if (last) break;
    begin = end + 1;
  }
  std::string out;
  for (const std::string_view part : segments) out.append("/").append(part);
  return out.empty() ? "/" : out;
}

std::string_view before(std::string_view text, char end) { return text.substr(0, text.find(end)); }

}  // namespace

bool http_url::same_origin(const http_url& url) const noexcept {
  return tls == url.tls && host == url.host && port == url.port;
}

std::string http_url::authority() const {
  std::string out = host.find(':') == host.npos ? host : "[" + host + "]";
  if (port != (tls ? 443 : 80)) out += ":" + std::to_string(port);
  return out;
}

std::string http_url::shown() const {
  return (tls ? "https://" : "http://") + authority() + std::string(path());
}

std::string_view http_url::path() const noexcept { return before(target, '?'); }

result<http_url> parse_http_url(std::string_view text) {
  if (text.size() > url_bytes_max) return invalid("the address has more than 8,192 bytes");
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= 0x20 || byte >= 0x7F) {
      return invalid("the address holds a blank, a control character, or a non-ASCII character");
    }
  }
  http_url out;
  if (begins_with_scheme(text, "http://")) {
    text.remove_prefix(7);
  } else if (begins_with_scheme(text, "https://")) {
    text.remove_prefix(8);
    out.tls = true;
  } else {
    return invalid("expected an address that begins with http:// or https://");
  }
  text = before(text, '#');
  const std::string_view authority = text.substr(0, text.find_first_of("/?"));
  if (auto parsed = parse_authority(authority, out); !parsed) return parsed.error();
  const std::string_view target = text.substr(authority.size());
  if (!target.empty()) out.target = target;
  if (out.target.front() == '?') out.target.insert(0, "/");
  return out;
}

bool is_path_key(std::string_view key) {
  const std::string inside = "/" + std::string(key) + "/";
  return inside.find("//") == inside.npos && inside.find("/./") == inside.npos &&
         inside.find("/../") == inside.npos && !has_control_character(key);
}

result<http_url> resolve_location(const http_url& base, std::string_view raw_location) {
  const std::string encoded = percent_encoded_raw(raw_location);
  const std::string_view location = encoded;
  const std::string_view first = location.substr(0, location.find_first_of("/?#"));
  if (const std::size_t colon = first.find(':'); colon != first.npos) {
    if (is_scheme(first.substr(0, colon))) return parse_http_url(location);
  }
  const std::string origin = (base.tls ? "https://" : "http://") + base.authority();
  if (location.starts_with("//")) {
    return parse_http_url((base.tls ? "https:" : "http:") + std::string(location));
  }
  if (location.empty() || location.front() == '#') return parse_http_url(origin + base.target);
  if (location.front() == '?') {
    return parse_http_url(origin + std::string(base.path()) + std::string(location));
  }
  const std::string_view path = location.substr(0, location.find_first_of("?#"));
  const std::string_view rest = location.substr(path.size());
  const std::string folder(base.path().substr(0, base.path().rfind('/') + 1));
  const std::string whole = path.front() == '/' ? std::string(path) : folder + std::string(path);
  return parse_http_url(origin + without_dots(whole) + std::string(rest));
}

}  // namespace ringload::inline v0::remote_http
