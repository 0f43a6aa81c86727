// SPDX-License-Identifier: Apache-2.0
#include "target.hpp"

#include <algorithm>
#include <boost/algorithm/string/predicate.hpp>
#include <boost/algorithm/string/trim.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/system/error_code.hpp>
#include <charconv>

namespace ringload::server {

namespace {

constexpr std::size_t parts_max = 4;
constexpr std::string_view scheme = "http://";

std::optional<std::uint64_t> parse_digits(std::string_view text) {
  std::uint64_t out = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, out);
  if (text.empty() || read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return out;
}

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (text.size() - i < 3) return std::nullopt;
    unsigned byte = 0;
    const char* digits = text.data() + i + 1;
    const auto read = std::from_chars(digits, digits + 2, byte, 16);
    if (read.ec != std::errc() || read.ptr != digits + 2) return std::nullopt;
    out += static_cast<char>(byte);
    i += 2;
  }
  return out;
}

// Removes and returns the text before the first `separator`, or the whole text. Also removes the
// separator.
std::string_view take_until(std::string_view& text, char separator) {
  const std::size_t position = text.find(separator);
  const std::string_view taken = text.substr(0, position);
  text.remove_prefix(position == std::string_view::npos ? text.size() : position + 1);
  return taken;
}

}  // namespace

std::optional<target> parse_target(std::string_view text) {
  target out;
  if (boost::algorithm::iequals(text.substr(0, scheme.size()), scheme)) {
    text.remove_prefix(scheme.size());
    const std::size_t end = std::min(text.find_first_of("/?"), text.size());
    out.host = text.substr(0, end);
    text.remove_prefix(end);
    // A user name before the host is refused, so that it is not taken for the host.
    if (out.host.empty() || out.host.find('@') != std::string::npos) return std::nullopt;
  } else if (!text.starts_with('/')) {
    return std::nullopt;
  }
  const bool has_query = text.find('?') != std::string_view::npos;
  std::string_view path = take_until(text, '?');
  if (!path.empty()) path.remove_prefix(1);  // An absolute target may have no path.

  bool more = !path.empty();
  while (more) {
    const bool last = out.parts.size() + 1 == parts_max;
    more = !last && path.find('/') != std::string_view::npos;
    auto part = percent_decoded(last ? path : take_until(path, '/'));
    if (!part) return std::nullopt;
    out.parts.push_back(std::move(*part));
  }
  while (has_query && !text.empty()) {
    std::string_view pair = take_until(text, '&');
    auto key = percent_decoded(take_until(pair, '='));
    auto value = percent_decoded(pair);
    if (!key || !value) return std::nullopt;
    out.query.insert_or_assign(std::move(*key), std::move(*value));
  }
  return out;
}

std::optional<std::uint64_t> number_in(const target& parsed, const std::string& key,
                                       std::uint64_t otherwise) {
  const auto found = parsed.query.find(key);
  return found == parsed.query.end() ? otherwise : parse_digits(found->second);
}

range_answer parse_range(std::string_view header, std::uint64_t size) {
  const range_answer whole{range_kind::whole, {0, size}};
  const range_answer outside{range_kind::outside, {0, 0}};
  if (!header.starts_with("bytes=")) return whole;
  header.remove_prefix(6);
  const std::size_t dash = header.find('-');
  if (dash == std::string_view::npos) return whole;
  const auto first = parse_digits(header.substr(0, dash));
  const auto last = parse_digits(header.substr(dash + 1));

  // "-5" means the last five bytes.
  if (dash == 0) {
    if (!last) return whole;
    if (*last == 0 || size == 0) return outside;
    return {range_kind::part, {size - std::min(*last, size), size}};
  }
  if (!first || (!last && dash + 1 != header.size())) return whole;
  if (last && *last < *first) return whole;
  if (*first >= size) return outside;
  // The header contains the index of the last byte, and `end` is the index after it.
  const std::uint64_t end = last ? std::min(*last, size - 1) + 1 : size;
  return {range_kind::part, {*first, end}};
}

bool accepts(std::string_view header, std::string_view type) {
  while (!header.empty()) {
    std::string_view entry = take_until(header, ',');
    std::string name(take_until(entry, ';'));
    boost::algorithm::trim(name);
    if (boost::algorithm::iequals(name, type)) return true;
  }
  return false;
}

bool is_loopback_address(std::string_view text) {
  boost::system::error_code failure;
  const auto address = boost::asio::ip::make_address(std::string(text), failure);
  if (failure) return false;
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    return boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, address.to_v6())
        .is_loopback();
  }
  return address.is_loopback();
}

bool is_loopback_host(std::string_view header) {
  if (header.starts_with('[')) {
    const std::size_t end = header.find(']');
    if (end == std::string_view::npos) return false;
    const std::string_view rest = header.substr(end + 1);
    return (rest.empty() || rest.starts_with(':')) &&
           is_loopback_address(header.substr(1, end - 1));
  }
  const std::string_view name = take_until(header, ':');
  if (boost::algorithm::iequals(name, "localhost")) return true;
  return name.starts_with("127.") &&
         std::ranges::all_of(name, [](char c) { return c == '.' || (c >= '0' && c <= '9'); });
}

}  // namespace ringload::server
