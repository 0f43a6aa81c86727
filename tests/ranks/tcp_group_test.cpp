// SPDX-License-Identifier: Apache-2.0

// What can go wrong when ranks meet over TCP: strangers, wrong tokens, taken ports, ranks that end.

#include <doctest/doctest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <ringload/error.hpp>
#include <ringload/group.hpp>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ranks/tcp_hello.hpp"
#include "ranks/tcp_socket.hpp"
#include "support/child_program.hpp"
#include "support/meeting_place.hpp"
#include "support/rank_threads.hpp"
#include "support/waiting.hpp"

using namespace ringload;
using namespace ringload::testing;
namespace detail = ringload::detail;

namespace {

std::string refusal(const std::string& address) {
  const auto parsed = detail::parse_tcp_meeting(address);
  return parsed ? "" : to_error(parsed.error()).what();
}

// Whether the other end has closed the connection, with or without a reset.
bool is_closed(const unique_fd& connection) {
  std::array<std::byte, 1> room = {};
  return ::recv(connection.get(), room.data(), room.size(), 0) <= 0;
}

template <class T>
void send_value(const unique_fd& connection, const T& value) {
  REQUIRE(::send(connection.get(), &value, sizeof value, MSG_NOSIGNAL) ==
          static_cast<::ssize_t>(sizeof value));
}

template <class T>
void receive_value(const unique_fd& connection, T& value) {
  REQUIRE(::recv(connection.get(), &value, sizeof value, MSG_WAITALL) ==
          static_cast<::ssize_t>(sizeof value));
}

unique_fd accepted_by(const unique_fd& listening) {
  return unique_fd(::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
}

// A rank in a thread of its own. `said()` waits for its end: the text of its error, or an empty
// text if it has joined and has met the others at a barrier.
class rank_in_thread {
 public:
  rank_in_thread(const std::string& address, std::uint32_t rank, std::uint32_t ranks,
                 std::chrono::milliseconds timeout = patience)
      : thread_([=, this](const std::stop_token& stop) {
          said_ = what_of([&] { join_group(address, rank, ranks, timeout, stop)->barrier(); });
        }) {}

  const std::string& said() {
    if (thread_.joinable()) thread_.join();
    return said_;
  }
  void stop() { thread_.request_stop(); }

 private:
  std::string said_;
  std::jthread thread_;
};

void wait_until_open(const meeting_place& place) {
  while (!place.is_open()) std::this_thread::yield();
}

}  // namespace

TEST_CASE("tcp group: an address has a host, a port and perhaps a token") {
  const auto parsed = detail::parse_tcp_meeting("tcp://node-0.job:29500/run 7");
  REQUIRE((parsed && *parsed));
  CHECK((*parsed)->host == "node-0.job");
  CHECK((*parsed)->port == "29500");
  CHECK((*parsed)->token == "run 7");
  const auto six = detail::parse_tcp_meeting("tcp://[fd00::1]:1");
  REQUIRE((six && *six));
  CHECK((*six)->host == "fd00::1");
  CHECK((*six)->token == "");
  const auto path = detail::parse_tcp_meeting("/run/tcp://x");
  REQUIRE(path.has_value());
  CHECK_FALSE(path->has_value());
  CHECK(detail::without_token("tcp://a:1/secret") == "tcp://a:1");
  CHECK(detail::without_token("tcp://a:1") == "tcp://a:1");
  CHECK(detail::without_token("/run/a/b") == "/run/a/b");

  CHECK(holds(refusal("tcp://"), "expected tcp://host:port"));
  CHECK(holds(refusal("tcp://host"), "expected tcp://host:port"));
  CHECK(holds(refusal("tcp://:1"), "expected tcp://host:port"));
  CHECK(holds(refusal("tcp://fd00::1:1"), "brackets around an IPv6 address"));
  for (const char* const port : {"", "0", "65536", "-1", "http", "1 "}) {
    CAPTURE(port);
    CHECK(holds(refusal(std::string("tcp://host:") + port), "a port from 1 to 65,535"));
  }
  CHECK(refusal("tcp://a:1/" + std::string(64, 'x')) == "");
  CHECK(holds(refusal("tcp://a:1/" + std::string(65, 'x')), "at most 64 bytes"));
  CHECK(holds(what_of([] { join_group("tcp://host:0/hidden", 0, 2); }),
              "tcp://host:0: expected a port"));
}

TEST_CASE("tcp group: ranks meet by a name and at an IPv6 address") {
  const meeting_place place(rank_transport::tcp);
  const std::string by_name = "tcp://localhost:" + std::to_string(place.port()) + "/a token";
  rank_in_thread first(by_name, 0, 2);
  rank_in_thread second(by_name, 1, 2);
  CHECK(first.said() == "");
  CHECK(second.said() == "");

  const std::string by_ip = "tcp://[::1]:" + std::to_string(place.port());
  const std::string refused = what_of([&] { join_group(by_ip, 0, 1, patience); });
  if (holds(refused, "assign requested address") || holds(refused, "family not supported")) {
    MESSAGE("skipped: this machine has no IPv6");
    return;
  }
  CHECK(refused == "");
  rank_in_thread third(by_ip, 0, 2);
  rank_in_thread fourth(by_ip, 1, 2);
  CHECK(third.said() == "");
  CHECK(fourth.said() == "");
}

TEST_CASE("tcp group: a rank with another token is refused, and the others still meet") {
  const meeting_place place(rank_transport::tcp);
  rank_in_thread first(place.address() + "/mine", 0, 2);
  for (const char* const token : {"/other", "", "/mine2"}) {
    const std::string said = what_of([&] { join_group(place.address() + token, 1, 2, patience); });
    CHECK(holds(said, "rank 0: the token of this rank differs"));
    CHECK_FALSE(holds(said, "other"));
  }
  rank_in_thread second(place.address() + "/mine", 1, 2);
  CHECK(first.said() == "");
  CHECK(second.said() == "");
}

TEST_CASE("tcp group: garbage at the port has no effect") {
  const meeting_place place(rank_transport::tcp);
  rank_in_thread first(place.address(), 0, 2);
  wait_until_open(place);
  std::vector<unique_fd> strangers;
  const std::string request = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" + std::string(200, 'x');
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{1}, std::size_t{87}, request.size()}) {
    strangers.push_back(connected_to(place.port()));
    REQUIRE(strangers.back());
    CHECK(::send(strangers.back().get(), request.data(), bytes, MSG_NOSIGNAL) >= 0);
    connected_to(place.port());  // Is closed at once.
  }
  // One that speaks the protocol, but comes for a message before there is a group.
  const detail::tcp_hello early = {
      .purpose = detail::hello_purpose::messages, .rank = 1, .ranks = 2};
  strangers.push_back(connected_to(place.port()));
  send_value(strangers.back(), early);
  CHECK(is_closed(strangers.back()));
  CHECK(is_closed(strangers[3]));  // The whole request was no hello.
  rank_in_thread second(place.address(), 1, 2);
  CHECK(first.said() == "");
  CHECK(second.said() == "");
}

TEST_CASE("tcp group: more strangers than may be unfinished do not keep the ranks out") {
  // With 64 descriptors, rank 0 has no descriptor for a further connection before 512 are
  // unfinished.
  for (const auto& [descriptors, stranger_count] : {std::pair("1024", 600), std::pair("64", 100)}) {
    CAPTURE(descriptors);
    const meeting_place place(rank_transport::tcp);
    const auto start = [&](const char* rank) {
      return child_program({"/bin/sh", "-c", "ulimit -n $0 && exec \"$@\"", descriptors, RANKS_TOOL,
                            place.address(), rank, "2", "60000", "meet", "-", "-"});
    };
    child_program first = start("0");
    wait_until_open(place);
    std::vector<unique_fd> strangers;
    for (int i = 0; i < stranger_count; ++i) strangers.push_back(connected_to(place.port()));
    child_program second = start("1");
    CHECK(first.read_line() == "met");
    CHECK(second.read_line() == "met");
    CHECK(first.exit_code() == 0);
    CHECK(second.exit_code() == 0);
  }
}

TEST_CASE("tcp group: a rank that ends while others join ends the meeting, with the reason") {
  const meeting_place place(rank_transport::tcp);
  rank_in_thread first(place.address(), 0, 4);
  wait_until_open(place);
  rank_in_thread other(place.address(), 2, 4);
  {
    const unique_fd ends = connected_to(place.port());
    send_value(ends, detail::tcp_hello{.rank = 1, .ranks = 4, .port = 1});
  }
  CHECK(holds(first.said(), "rank 1: it ended before all ranks had joined"));
  // Rank 2 may come after that, and then finds nobody.
  other.stop();
  CAPTURE(other.said());
  CHECK((holds(other.said(), "rank 1: it ended before all ranks had joined") ||
         holds(other.said(), "ended or refused") || holds(other.said(), "cancelled")));
}

TEST_CASE("tcp group: the address of a peer that has reset the connection is ECONNRESET") {
  const auto endpoints = detail::resolve_host("127.0.0.1", "0");
  REQUIRE(endpoints.has_value());
  const auto listening = detail::listen_on(endpoints->front());
  REQUIRE(listening.has_value());
  const auto place = detail::local_endpoint(*listening);
  REQUIRE(place.has_value());
  const unique_fd socket = connected_to(detail::port_of(*place));
  REQUIRE(socket.get() >= 0);
  CHECK(detail::remote_endpoint(socket).has_value());
  {
    unique_fd accepted;
    while (!accepted) accepted = unique_fd(::accept(listening->get(), nullptr, nullptr));
    const ::linger reset = {1, 0};  // The close sends a reset.
    REQUIRE(::setsockopt(accepted.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset) == 0);
  }
  char byte = 0;
  CHECK(::recv(socket.get(), &byte, 1, 0) < 0);  // Waits for the reset.
  const auto gone = detail::remote_endpoint(socket);
  REQUIRE_FALSE(gone.has_value());
  CHECK(gone.error().code.value() == ECONNRESET);
}

TEST_CASE("tcp group: a rank that does not come is an error of all, with the reason") {
  const meeting_place place(rank_transport::tcp);
  rank_in_thread second(place.address(), 1, 3);
  rank_in_thread first(place.address(), 0, 3, std::chrono::seconds(1));
  CHECK(holds(first.said(), "1 ranks did not join in time"));
  CHECK(holds(second.said(), "rank 0: 1 ranks did not join in time"));
}

TEST_CASE("tcp group: a port that is taken, and a program there that is no rank, are errors") {
  const unique_fd taken = loopback_socket(0, 16);
  const std::string address = "tcp://127.0.0.1:" + std::to_string(port_of(taken));
  CHECK(holds(what_of([&] { join_group(address, 0, 2, patience); }), "Address already in use"));
  CHECK(holds(what_of([&] { join_group("tcp://192.0.2.1:2000", 0, 2, patience); }),
              "assign requested address"));
  {
    rank_in_thread second(address, 1, 2);
    const unique_fd connection = accepted_by(taken);
    send_value(connection, std::array<char, 1000>{'H', 'T', 'T', 'P'});
    CHECK(holds(second.said(), "rank 0: the program at this address is not rank 0"));
  }
  rank_in_thread second(address, 1, 2);
  accepted_by(taken);  // Is closed at once.
  CHECK(holds(second.said(), "rank 0: it has ended or refused this rank"));
}

TEST_CASE("tcp group: a rank that nobody answers gives up when the time is over") {
  const meeting_place place(rank_transport::tcp);
  const std::chrono::milliseconds limit(50);
  CHECK(holds(what_of([&] { join_group(place.address(), 1, 2, limit); }), "Connection refused"));
  CHECK(holds(what_of([&] { join_group("tcp://no.host.invalid:2000", 1, 2, limit); }),
              "host 'no.host.invalid'"));
  // The kernel accepts the connection, and nobody reads the hello.
  const unique_fd silent = loopback_socket(0, 16);
  const std::string address = "tcp://127.0.0.1:" + std::to_string(port_of(silent));
  CHECK(holds(what_of([&] { join_group(address, 1, 2, limit); }), "timed out"));
}

TEST_CASE("tcp group: who does not know the key of the group cannot take a rank's place") {
  // This test is rank 0 and rank 2. Rank 1 waits for rank 2 at a port of its own.
  const unique_fd listening = loopback_socket(0, 16);
  rank_in_thread second("tcp://127.0.0.1:" + std::to_string(port_of(listening)), 1, 3);
  const unique_fd meeting = accepted_by(listening);
  detail::tcp_hello hello;
  receive_value(meeting, hello);
  CHECK(hello.rank == 1);
  CHECK(hello.ranks == 3);
  detail::tcp_welcome welcome;
  welcome.key = detail::padded<detail::token_field>("the key");
  send_value(meeting, welcome);
  send_value(meeting, std::array<detail::rank_address, 3>{});
  const unique_fd messages = accepted_by(listening);
  const unique_fd events = accepted_by(listening);
  REQUIRE((messages && events));

  const auto port = static_cast<std::uint16_t>(hello.port);
  std::vector<unique_fd> connections;
  const auto say = [&](std::uint32_t rank, const char* key, detail::hello_purpose purpose) {
    connections.push_back(connected_to(port));
    send_value(connections.back(),
               detail::tcp_hello{.purpose = purpose,
                                 .rank = rank,
                                 .ranks = 3,
                                 .token = detail::padded<detail::token_field>(key)});
  };
  say(2, "another key", detail::hello_purpose::messages);
  CHECK(is_closed(connections.back()));
  say(1, "the key", detail::hello_purpose::messages);
  CHECK(is_closed(connections.back()));
  say(3, "the key", detail::hello_purpose::events);
  CHECK(is_closed(connections.back()));
  say(2, "the key", detail::hello_purpose::meeting);
  CHECK(is_closed(connections.back()));
  say(2, "the key", detail::hello_purpose::messages);
  say(2, "the key", detail::hello_purpose::messages);
  CHECK(is_closed(connections.back()));
  say(2, "the key", detail::hello_purpose::events);
  // Rank 1 has joined and is in its barrier. It learns that both others are gone.
  connections.clear();
  CHECK(holds(second.said(), "rank "));
}

TEST_CASE("tcp group: an event that is too long, or names no rank, ends the group") {
  for (const detail::rank_event& wrong :
       {detail::rank_event{.rank = 0, .text_bytes = 1 << 20}, detail::rank_event{.rank = 9}}) {
    const unique_fd listening = loopback_socket(0, 16);
    rank_in_thread second("tcp://127.0.0.1:" + std::to_string(port_of(listening)), 1, 2);
    const unique_fd meeting = accepted_by(listening);
    detail::tcp_hello hello;
    receive_value(meeting, hello);
    send_value(meeting, detail::tcp_welcome{});
    send_value(meeting, std::array<detail::rank_address, 2>{});
    const unique_fd messages = accepted_by(listening);
    const unique_fd events = accepted_by(listening);
    receive_value(events, hello);
    CHECK(hello.purpose == detail::hello_purpose::events);
    send_value(events, wrong);
    CHECK(second.said() == "rank 0: it sent an invalid event");
  }
}

TEST_CASE("tcp group: an event that arrives byte by byte is one event") {
  const unique_fd listening = loopback_socket(0, 16);
  rank_in_thread second("tcp://127.0.0.1:" + std::to_string(port_of(listening)), 1, 2);
  const unique_fd meeting = accepted_by(listening);
  detail::tcp_hello hello;
  receive_value(meeting, hello);
  send_value(meeting, detail::tcp_welcome{});
  send_value(meeting, std::array<detail::rank_address, 2>{});
  const unique_fd messages = accepted_by(listening);
  const unique_fd events = accepted_by(listening);
  detail::rank_event reason = {.kind = detail::rank_event::kind_of_event::failed, .text_bytes = 5};
  std::copy_n("a fan", 5, reason.text.begin());
  const int no_delay = 1;
  ::setsockopt(events.get(), IPPROTO_TCP, TCP_NODELAY, &no_delay, sizeof no_delay);
  const auto bytes =
      std::as_bytes(std::span(&reason, 1)).first(offsetof(detail::rank_event, text) + 5);
  for (const std::byte& byte : bytes) send_value(events, byte);
  CHECK(second.said() == "rank 0: a fan");
}
