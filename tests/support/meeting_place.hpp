// SPDX-License-Identifier: Apache-2.0
#pragma once

// An address at which the ranks of a test meet: the path of a Unix socket, or a TCP port of this
// machine.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/unique_fd.hpp"
#include "support/temporary_folder.hpp"

namespace ringload::testing {

enum class rank_transport { threads, socket, tcp };

inline constexpr rank_transport all_transports[] = {rank_transport::threads, rank_transport::socket,
                                                    rank_transport::tcp};
// The transports of ranks that meet at an address.
inline constexpr rank_transport process_transports[] = {rank_transport::socket,
                                                        rank_transport::tcp};

inline const char* name_of(rank_transport transport) {
  if (transport == rank_transport::threads) return "threads";
  return transport == rank_transport::socket ? "socket" : "tcp";
}

// A socket of this machine that listens, unless `backlog` is negative. Port 0: any that is free.
inline unique_fd loopback_socket(std::uint16_t port, int backlog) {
  unique_fd out(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ::sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::bind(out.get(), reinterpret_cast<::sockaddr*>(&address), sizeof address) != 0 ||
      (backlog >= 0 && ::listen(out.get(), backlog) != 0)) {
    throw std::runtime_error("no port is free");
  }
  return out;
}

inline std::uint16_t port_of(const unique_fd& socket) {
  ::sockaddr_in address = {};
  ::socklen_t bytes = sizeof address;
  ::getsockname(socket.get(), reinterpret_cast<::sockaddr*>(&address), &bytes);
  return ntohs(address.sin_port);
}

// A connection to a port of this machine. Invalid if nobody listens.
inline unique_fd connected_to(std::uint16_t port) {
  unique_fd out(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ::sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const auto* const generic = reinterpret_cast<const ::sockaddr*>(&address);
  return ::connect(out.get(), generic, sizeof address) == 0 ? std::move(out) : unique_fd();
}

// A port on which nobody listens, outside the range from which the kernel chooses ports: a socket
// that tries to connect to a port of that range may connect to itself.
inline std::uint16_t unused_port() {
  static std::atomic<unsigned> count = 0;
  for (unsigned tries = 0; tries < 10'000; ++tries) {
    const unsigned number = static_cast<unsigned>(::getpid()) * 61 + ++count;
    const auto port = static_cast<std::uint16_t>(20'000 + number % 12'000);
    try {
      loopback_socket(port, -1);
      return port;
    } catch (const std::runtime_error&) {
      continue;
    }
  }
  throw std::runtime_error("no port is free");
}

class meeting_place {
 public:
  explicit meeting_place(rank_transport transport) {
    if (transport == rank_transport::socket) {
      folder_.reset(new temporary_folder(temporary_folder::for_sockets()));
      address_ = (folder_->path() / "ranks").string();
    } else if (transport == rank_transport::tcp) {
      port_ = unused_port();
      address_ = "tcp://127.0.0.1:" + std::to_string(port_);
    }
  }

  const std::string& address() const noexcept { return address_; }
  std::uint16_t port() const noexcept { return port_; }

  // Whether rank 0 listens there. Over TCP, this connects, and closes the connection.
  bool is_open() const {
    if (folder_) return std::filesystem::exists(address_);
    return static_cast<bool>(connected_to(port_));
  }

 private:
  std::unique_ptr<const temporary_folder> folder_;
  std::string address_;
  std::uint16_t port_ = 0;
};

}  // namespace ringload::testing
