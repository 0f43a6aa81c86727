// SPDX-License-Identifier: Apache-2.0
#pragma once

// The first bytes of the TCP connections between ranks. tcp_rendezvous.cpp describes the protocol.
// The structs tcp_hello, tcp_welcome and rank_address are sent as they are in memory. A peer with
// another byte order is refused, because its magic number differs.

#include <poll.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/fault.hpp"
#include "base/unique_fd.hpp"
#include "ranks/rendezvous.hpp"
#include "ranks/tcp_socket.hpp"

namespace ringload::inline v0::detail {

// First number of a hello and of a welcome: the ASCII text "rltcp" and the version of the protocol.
inline constexpr std::uint64_t tcp_magic = 0x31'00'00'70'63'74'6C'72;

enum class hello_purpose : std::uint32_t { meeting, messages, events };
enum class welcome_kind : std::uint32_t { accepted, mismatched, failed };

using token_field = std::array<char, token_bytes_max>;

struct tcp_hello {
  std::uint64_t magic = tcp_magic;
  hello_purpose purpose = hello_purpose::meeting;
  std::uint32_t rank = 0;
  std::uint32_t ranks = 0;
  std::uint32_t port = 0;  // Port at which the sender listens. Only for a meeting.
  // If `purpose` is `meeting`, the token in the address that the caller passed to join_group().
  // Otherwise the key of the group, which rank 0 sends in a tcp_welcome.
  token_field token = {};
};
static_assert(sizeof(tcp_hello) == 88);

// The answer of rank 0 to the hello of a meeting.
struct tcp_welcome {
  std::uint64_t magic = tcp_magic;
  welcome_kind kind = welcome_kind::accepted;
  std::uint32_t reason_bytes = 0;
  token_field key = {};
  std::array<char, 512> reason = {};
};
static_assert(sizeof(tcp_welcome) == 592);

// The address at which a rank listens.
struct rank_address {
  std::array<char, 64> ip = {};
  std::uint32_t port = 0;
};

// A rank that has joined. Rank 0 has one object of this type for each rank.
struct member {
  unique_fd connection;
  rank_address address;
};

// A connection whose hello is complete.
struct arrival {
  tcp_hello hello;
  unique_fd connection;
};

template <class Chars>
Chars padded(std::string_view text) noexcept {
  Chars out = {};
  std::copy_n(text.begin(), std::min(text.size(), out.size()), out.begin());
  return out;
}

template <class T>
std::span<std::byte> bytes_in(T& value) noexcept {
  static_assert(std::is_trivially_copyable_v<T>);
  return std::as_writable_bytes(std::span(&value, 1));
}

// Sends all bytes. Fails with ETIMEDOUT at the deadline, and with errc::rank_failed if the peer has
// closed the connection.
result<void> send_all(const rendezvous& joining, const unique_fd& socket,
                      std::span<const std::byte> bytes);
// Receives all bytes. Fails like send_all().
result<void> receive_all(const rendezvous& joining, const unique_fd& socket,
                         std::span<std::byte> bytes);

// Accepts connections and receives the hello of each connection. Several hellos may be incomplete
// at the same time.
class hello_queue {
 public:
  // The queue keeps references to both parameters.
  hello_queue(const rendezvous& joining, const unique_fd& listening)
      : joining_(joining), listening_(listening) {}

  // Waits for the next complete hello. Fails with ETIMEDOUT at the deadline, and with
  // errc::rank_failed if a member closes its connection.
  result<arrival> next(const std::vector<member>& members);

 private:
  struct partial_hello {
    unique_fd connection;
    tcp_hello hello;
    std::size_t bytes = 0;
  };

  // Returns a complete hello, or an empty optional. Closes connections whose hello is invalid.
  // `polled` begins with one element for each element of `partial_hellos_`.
  std::optional<arrival> receive_hellos(std::span<const ::pollfd> polled);
  result<void> accept_connection();

  const rendezvous& joining_;
  const unique_fd& listening_;
  std::vector<partial_hello> partial_hellos_;
};

}  // namespace ringload::inline v0::detail
