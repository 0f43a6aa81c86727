// SPDX-License-Identifier: Apache-2.0

#include "remote/http/no_proxy.hpp"

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/network_v4.hpp>
#include <boost/asio/ip/network_v6.hpp>
#include <boost/system/error_code.hpp>
#include <string_view>

#include "base/parse_number.hpp"

namespace ringload::inline v0::remote_http {

namespace {

namespace ip = boost::asio::ip;
using error_code = boost::system::error_code;

bool network_contains(const std::string& network, const ip::address& host) {
  error_code failed;
  if (host.is_v4()) {
    const auto members = ip::make_network_v4(network, failed);
    return !failed &&
           ip::network_v4(host.to_v4(), members.prefix_length()).network() == members.network();
  }
  const auto members = ip::make_network_v6(network, failed);
  return !failed &&
         ip::network_v6(host.to_v6(), members.prefix_length()).network() == members.network();
}

bool contains(std::string entry, const std::string& host, std::uint16_t port) {
  std::erase_if(entry, [](char c) { return c == ' ' || c == '\t'; });
  std::ranges::transform(entry, entry.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  if (entry == "*") return true;
  error_code failed;
  const ip::address address = ip::make_address(host, failed);
  if (!failed && entry.find('/') != entry.npos) return network_contains(entry, address);
  std::string_view name = entry;
  const std::size_t colon = name.rfind(':');
  const bool is_one_colon = colon != name.npos && name.find(':') == colon;
  if (is_one_colon || name.starts_with('[')) {
    if (const auto only = parse_number<std::uint16_t>(name.substr(colon + 1))) {
      if (*only != port) return false;
      name = name.substr(0, colon);
    }
    if (name.starts_with('[') && name.ends_with(']')) name = name.substr(1, name.size() - 2);
  }
  if (name.starts_with("*.")) name.remove_prefix(1);
  if (name.starts_with('.')) name.remove_prefix(1);
  if (name.empty()) return false;
  return host == name || host.ends_with("." + std::string(name));
}

}  // namespace

bool is_exempt(std::span<const std::string> entries, const std::string& host, std::uint16_t port) {
  return std::ranges::any_of(entries,
                             [&](const std::string& entry) { return contains(entry, host, port); });
}

}  // namespace ringload::inline v0::remote_http
