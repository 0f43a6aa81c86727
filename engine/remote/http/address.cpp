// SPDX-License-Identifier: Apache-2.0

#include "remote/http/address.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

namespace ringload::inline v0::remote_http {

namespace {

struct network {
  std::uint32_t begin;
  unsigned bits;
};

constexpr std::array<network, 14> private_networks = {{
    {0x00000000, 8},   // 0.0.0.0: this network.
    {0x0A000000, 8},   // 10.0.0.0
    {0x64400000, 10},  // 100.64.0.0: networks of carriers.
    {0x7F000000, 8},   // 127.0.0.0
    // 169.254.0.0: link-local. Cloud providers serve credentials at such addresses.
    {0xA9FE0000, 16},
    {0xAC100000, 12},  // 172.16.0.0
    {0xC0000000, 24},  // 192.0.0.0
    {0xC0000200, 24},  // 192.0.2.0: documentation.
    {0xC0A80000, 16},  // 192.168.0.0
    {0xC6120000, 15},  // 198.18.0.0: benchmarks.
    {0xC6336400, 24},  // 198.51.100.0: documentation.
    {0xCB007100, 24},  // 203.0.113.0: documentation.
    {0xE0000000, 4},   // 224.0.0.0: multicast.
    {0xF0000000, 4},   // 240.0.0.0: reserved. Includes 255.255.255.255.
}};

bool is_private_v4(std::uint32_t address) noexcept {
  return std::ranges::any_of(private_networks, [address](const network& n) {
    return (address ^ n.begin) >> (32 - n.bits) == 0;
  });
}

std::uint32_t number_at(const boost::asio::ip::address_v6::bytes_type& bytes, std::size_t offset) {
  std::uint32_t out = 0;
  for (std::size_t i = 0; i < 4; ++i) out = out << 8 | bytes[offset + i];
  return out;
}

}  // namespace

bool is_private(const boost::asio::ip::address& address) noexcept {
  if (address.is_v4()) return is_private_v4(address.to_v4().to_uint());
  const auto bytes = address.to_v6().to_bytes();
  const auto zeros = [&bytes](std::size_t count) {
    return std::all_of(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count),
                       [](unsigned char b) { return b == 0; });
  };
  // All addresses ::a.b.c.d are private, including :: and ::1. An address ::ffff:a.b.c.d
  // or 64:ff9b::a.b.c.d is private if a.b.c.d is private. An address of 2002::/16 is private if the
  // IPv4 address in the next 32 bits is private.
  if (zeros(12)) return true;
  if (zeros(10) && bytes[10] == 0xFF && bytes[11] == 0xFF)
    return is_private_v4(number_at(bytes, 12));
  const bool is_translated =
      number_at(bytes, 0) == 0x0064FF9B && number_at(bytes, 4) == 0 && number_at(bytes, 8) == 0;
  if (is_translated) return is_private_v4(number_at(bytes, 12));
  if (bytes[0] == 0x20 && bytes[1] == 0x02) return is_private_v4(number_at(bytes, 2));
  // Every other address outside of 2000::/3 is private. Within 2000::/3, 2001::/23 (protocols such
  // as Teredo) and the documentation networks 2001:db8::/32 and 3fff::/20 are private.
  const std::uint32_t prefix = number_at(bytes, 0);
  return bytes[0] >> 5 != 1 || prefix >> 9 == 0x20010000U >> 9 || prefix == 0x20010DB8 ||
         prefix >> 12 == 0x3FFF0;
}

bool names_private(std::string_view host) {
  if (host.ends_with('.')) host.remove_suffix(1);
  boost::system::error_code code;
  const auto address = boost::asio::ip::make_address(std::string(host), code);
  if (!code) return is_private(address);
  // Many resolvers accept an IPv4 address as one number, with fewer parts, or in hexadecimal
  // digits.
  const std::string_view last = host.substr(host.rfind('.') + 1);
  if (!last.empty() && last.front() >= '0' && last.front() <= '9') return true;
  return host == "localhost" || host.ends_with(".localhost") || host.ends_with(".local") ||
         host.ends_with(".internal");
}

}  // namespace ringload::inline v0::remote_http
