// SPDX-License-Identifier: Apache-2.0

// Messages between ranks: threads, and processes that meet at a socket or over TCP.

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <ringload/error.hpp>
#include <ringload/group.hpp>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/packet_socket.hpp"
#include "ranks/socket_group.hpp"
#include "support/child_program.hpp"
#include "support/made_checkpoint.hpp"
#include "support/meeting_place.hpp"
#include "support/rank_threads.hpp"
#include "support/temporary_folder.hpp"
#include "support/waiting.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

constexpr std::size_t sizes[] = {0, 1, 4096, (std::size_t{3} << 20) + 5};

// Different bytes for each seed below 256. Copied, because a loop over each byte is slow with a
// sanitizer.
std::vector<std::byte> pattern(std::size_t bytes, unsigned seed) {
  static const std::vector<std::byte> all = [] {
    std::vector<std::byte> made(std::ranges::max(sizes) + 256);
    for (std::size_t i = 0; i < made.size(); ++i) made[i] = std::byte(i * 7 + i / 251);
    return made;
  }();
  return {all.data() + seed, all.data() + seed + bytes};
}

bool same(const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

}  // namespace

TEST_CASE("group: a broadcast brings the root's bytes to every rank, of any number") {
  const auto broadcast_all = [](group& all) {
    for (std::uint32_t root = 0; root < all.size(); ++root) {
      for (const std::size_t bytes : sizes) {
        auto own = pattern(bytes, all.rank() == root ? root + 1 : 99);
        all.broadcast(own, root);
        if (!same(own, pattern(bytes, root + 1))) return std::string("other bytes");
      }
    }
    return std::string();
  };
  for (const rank_transport transport : all_transports) {
    CAPTURE(name_of(transport));
    for (const std::uint32_t ranks : {1U, 2U, 3U, 5U, 8U}) {
      on_threads(ranks, broadcast_all, transport);
    }
  }
}

TEST_CASE("group: all_gather brings the parts of all ranks to every rank") {
  // The ranks have different numbers of bytes, and the parts of a rank are not neighbours.
  const auto gather = [](group& all) {
    for (const std::size_t bytes : sizes) {
      std::vector<std::vector<std::byte>> own;
      std::vector<std::uint32_t> roots;
      for (std::uint32_t i = 0; i < 2 * all.size() + 1; ++i) {
        const std::uint32_t root = i * 5 / 3 % all.size();
        roots.push_back(root);
        own.push_back(pattern(bytes / (1 + i % 3), all.rank() == root ? i + 1 : 99));
      }
      std::vector<gathered_part> parts;
      for (std::size_t i = 0; i < own.size(); ++i) parts.push_back({own[i], roots[i]});
      all.all_gather(parts);
      for (unsigned i = 0; i < own.size(); ++i) {
        if (!same(own[i], pattern(own[i].size(), i + 1))) return std::string("other bytes");
      }
      all.all_gather({});
      all.all_gather(std::span(parts).first(1));
    }
    return std::string();
  };
  for (const rank_transport transport : all_transports) {
    CAPTURE(name_of(transport));
    for (const std::uint32_t ranks : {1U, 2U, 3U, 5U, 8U}) on_threads(ranks, gather, transport);
  }
}

TEST_CASE("group: a rank that stops or fails during all_gather is named by all others") {
  for (const bool fails : {true, false}) {
    std::atomic<int> ended = 0;
    const auto gather = [&](group& all) {
      if (all.rank() == 2) {
        if (fails) return all.fail("its drive is gone");
        // The rank exists but makes no call until the others have given up.
        while (ended < 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return;
      }
      std::vector<std::byte> whole(std::size_t{8} << 20);
      std::vector<gathered_part> parts;
      for (std::uint32_t root = 0; root < all.size(); ++root)
        parts.push_back({std::span(whole).subspan(root << 21U, std::size_t{1} << 21U), root});
      const std::string reason = what_of([&] { all.all_gather(parts); });
      ++ended;
      throw std::runtime_error(reason);
    };
    for (const rank_transport transport : all_transports) {
      CAPTURE(name_of(transport));
      ended = 0;
      const auto said = all_said(4, gather, std::chrono::milliseconds(2000), transport);
      for (const std::uint32_t rank : {0U, 1U, 3U}) {
        CAPTURE(rank);
        CHECK(said[rank].starts_with("rank 2: "));
        CHECK(holds(said[rank], fails ? "its drive is gone" : "within 2000 ms"));
      }
    }
  }
}

TEST_CASE("group: a scatter brings each rank its part, which may be empty") {
  const auto work = [](group& all) {
    std::vector<std::vector<std::byte>> parts;
    std::vector<std::span<const std::byte>> views;
    for (unsigned r = 0; r < 4; ++r) parts.push_back(pattern(r * 100'000, r));
    for (const auto& each : parts) views.emplace_back(each);
    std::vector<std::byte> own(all.rank() * 100'000);
    all.scatter(all.rank() == 2 ? std::span(std::as_const(views))
                                : std::span<const std::span<const std::byte>>(),
                own, 2);
    return std::string(same(own, parts[all.rank()]) ? "" : "other bytes");
  };
  for (const rank_transport transport : all_transports) {
    CAPTURE(name_of(transport));
    on_threads(4, work, transport);
  }
}

TEST_CASE("group: a rank learns of the failure of another rank without a wait for a message") {
  const auto work = [](group& all) {
    std::byte token{};
    if (all.rank() == 1) {
      for (const std::uint32_t rank : {0U, 2U}) all.receive({&token, 1}, rank);
      all.fail("the reason");
      return std::string();
    }
    all.check_ranks();  // No rank has failed yet.
    all.send({&token, 1}, 1);
    std::string said;
    const auto until = std::chrono::steady_clock::now() + patience;
    while (said.empty() && std::chrono::steady_clock::now() < until) {
      said = what_of([&] { all.check_ranks(); });
    }
    return said == "rank 1: the reason" ? std::string() : "it is told: " + said;
  };
  for (const rank_transport transport : all_transports) {
    CAPTURE(name_of(transport));
    on_threads(3, work, transport);
  }
}

TEST_CASE("group: messages between two ranks keep their order, also where both send much") {
  const auto work = [](group& all) {
    const std::uint32_t next = (all.rank() + 1) % 3;
    const std::uint32_t before = (all.rank() + 2) % 3;
    for (unsigned i = 0; i < 20; ++i) {
      const auto sent = pattern(i * 50'000, i);
      std::vector<std::byte> got(sent.size());
      // One rank of the circle begins with a receive.
      if (all.rank() != 0) all.send(sent, next);
      all.receive(got, before);
      if (all.rank() == 0) all.send(sent, next);
      if (!same(got, sent)) return std::string("other bytes");
    }
    return std::string();
  };
  for (const rank_transport transport : all_transports) {
    CAPTURE(name_of(transport));
    on_threads(3, work, transport);
  }
}

TEST_CASE("group: nobody leaves a barrier before all have come") {
  for (const rank_transport transport : all_transports) {
    CAPTURE(name_of(transport));
    std::atomic<unsigned> came = 0;
    const auto work = [&](group& all) {
      for (unsigned round = 1; round <= 50; ++round) {
        ++came;
        all.barrier();
        if (came < 5 * round) return std::string("a rank is missing");
        all.barrier();
      }
      return std::string();
    };
    on_threads(5, work, transport);
  }
}

TEST_CASE("group: a rank that fails ends the calls of all others, with its reason") {
  const auto work = [](group& all) {
    if (all.rank() == 2) {
      all.fail("its drive is gone");
      all.fail("and again");
    }
    all.barrier();
  };
  for (const rank_transport transport : all_transports) {
    CAPTURE(name_of(transport));
    const auto said = all_said(4, work, patience, transport);
    for (const std::string& each : said) CHECK(each == "rank 2: its drive is gone");
  }
}

TEST_CASE("group: a rank that leaves while others wait for it is an error for them") {
  const auto work = [](group& all) {
    if (all.rank() != 1) all.barrier();
  };
  for (const rank_transport transport : all_transports) {
    CAPTURE(name_of(transport));
    const auto said = all_said(3, work, patience, transport);
    CHECK(said[1] == "");
    CHECK(holds(said[0], "rank 1: it has left the group"));
    // Rank 0 has left the group, or reports this before.
    CHECK(holds(said[2], "it has left the group"));
  }
}

TEST_CASE("group: a rank that does not come ends the group when the time is over") {
  const auto work = [](group& all) {
    if (all.rank() != 0) return all.barrier();
    // The rank exists but makes no call until the others have given up.
    std::vector<std::byte> never(1);
    all.receive(never, 2);
    all.receive(never, 2);
  };
  for (const rank_transport transport : all_transports) {
    CAPTURE(name_of(transport));
    // Processes must also have met within the time.
    const unsigned limit_ms = transport == rank_transport::threads ? 50 : 2000;
    const auto said = all_said(3, work, std::chrono::milliseconds(limit_ms), transport);
    CAPTURE(said[1]);
    CHECK(holds(said[1], "no message arrived within " + std::to_string(limit_ms) + " ms"));
  }
}

TEST_CASE("group: the longest time limit does not overflow the clock") {
  const auto work = [](group& all) { all.barrier(); };
  for (const rank_transport transport : all_transports) {
    CAPTURE(name_of(transport));
    for (const std::string& failure :
         all_said(3, work, std::chrono::milliseconds::max(), transport))
      CHECK(failure == "");
  }
}

TEST_CASE("group: the rank that did not come is named, also by a rank that waits for another") {
  // Rank 2 waits for rank 0, which has more time and waits for rank 1.
  auto sockets = detail::all_sockets(3);
  REQUIRE(sockets.has_value());
  const auto made = [&](std::uint32_t rank, std::chrono::milliseconds timeout) {
    return detail::socket_group(rank, std::move((*sockets)[rank]), *detail::new_wake(), timeout);
  };
  detail::socket_group first = made(0, patience);
  const detail::socket_group stopped = made(1, patience);
  detail::socket_group last = made(2, std::chrono::milliseconds(50));
  std::string first_said;
  std::string last_said;
  {
    const std::jthread waits([&] {
      std::vector<std::byte> token(1);
      first_said = what_of([&] { first.receive(token, 1); });
    });
    std::vector<std::byte> token(1);
    last_said = what_of([&] { last.receive(token, 0); });
  }
  CHECK(last_said == "rank 1: no message arrived within 50 ms");
  CHECK(first_said == last_said);
}

TEST_CASE("group: an interrupted rank waits no longer, and its later calls fail as well") {
  const auto work = [](group& all) {
    if (all.rank() != 1) return all.barrier();
    std::jthread other([&] { all.interrupt(); });  // During the wait or before it.
    std::vector<std::byte> never(1);
    const std::string first = what_of([&] {
      all.receive(never, 2);
      all.receive(never, 2);
    });
    all.interrupt();
    const std::string second = what_of([&] { all.send(never, 2); });
    all.fail("it was interrupted");
    throw std::runtime_error(first + " | " + second);
  };
  for (const rank_transport transport : all_transports) {
    CAPTURE(name_of(transport));
    const auto said = all_said(3, work, patience, transport);
    CHECK(said[0] == "rank 1: it was interrupted");
    CHECK(said[1] == "group: interrupted | group: interrupted");
    CHECK(said[2] == "rank 1: it was interrupted");
  }
}

TEST_CASE("group: processes meet at an address, in any order, and the address is free again") {
  for (const rank_transport transport : process_transports) {
    CAPTURE(name_of(transport));
    const meeting_place place(transport);
    std::vector<std::jthread> threads;
    std::vector<std::string> said(4);
    for (const std::uint32_t rank : {3U, 1U, 0U, 2U}) {
      threads.emplace_back([&, rank] {
        said[rank] = what_of([&] {
          const auto all = join_group(place.address(), rank, 4, patience);
          auto own = pattern(100, all->rank());
          all->broadcast(own, 3);
          if (own != pattern(100, 3)) throw std::runtime_error("other bytes");
          all->barrier();
        });
      });
    }
    threads.clear();
    for (const std::string& each : said) CHECK(each == "");
    // The same address serves the next group, although connections of the first have just ended.
    if (transport == rank_transport::socket) CHECK_FALSE(place.is_open());
    CHECK(what_of([&] { join_group(place.address(), 0, 1, patience); }) == "");
  }
}

TEST_CASE("group: who is no rank of it, or comes twice, ends the meeting for all") {
  for (const rank_transport transport : process_transports) {
    for (const std::uint32_t stranger : {1U, 3U}) {
      CAPTURE(name_of(transport));
      const meeting_place place(transport);
      std::vector<std::string> said(3);
      {
        std::vector<std::jthread> threads;
        for (std::uint32_t i = 0; i < 3; ++i) {
          const std::uint32_t rank = i == 2 ? stranger : i;
          const std::uint32_t ranks = rank == 3 ? 4 : 3;
          threads.emplace_back([&said, &place, i, rank, ranks](const std::stop_token& stop) {
            said[i] = what_of([&] { join_group(place.address(), rank, ranks, patience, stop); });
          });
        }
        // Who comes to rank 0 when that has given up waits for another, until this stops it.
        threads.front().join();
      }
      CHECK(holds(said[0], stranger == 3 ? "rank 3 of 4 joined a group of 3" : "joined already"));
      CHECK(said[2] != "");
    }
    const meeting_place place(transport);
    CHECK(holds(what_of([&] { join_group(place.address(), 0, 2, std::chrono::milliseconds(20)); }),
                "1 ranks did not join in time"));
    CHECK_FALSE(place.is_open());
  }
  CHECK(holds(what_of([&] { make_thread_ranks(0); }), "1 to 127"));
  CHECK(holds(what_of([&] { join_group("x", 5, 5); }), "rank is 5 of 5"));
}

TEST_CASE("group: who joins can be stopped at any time, and leaves the address free") {
  for (const rank_transport transport : process_transports) {
    CAPTURE(name_of(transport));
    const meeting_place place(transport);
    for (const std::uint32_t rank : {0U, 1U}) {
      std::string said;
      std::jthread joining([&](const std::stop_token& stop) {
        said = what_of([&] { join_group(place.address(), rank, 2, patience, stop); });
      });
      // Rank 0 waits when its socket exists. Rank 1 finds no socket.
      while (rank == 0 && !place.is_open()) std::this_thread::yield();
      joining.request_stop();
      joining.join();
      CHECK(holds(said, "joining was cancelled"));
      CHECK_FALSE(place.is_open());
    }
    std::stop_source stopped;
    stopped.request_stop();
    for (const std::uint32_t ranks : {1U, 2U}) {
      CHECK(holds(
          what_of([&] { join_group(place.address(), 0, ranks, patience, stopped.get_token()); }),
          "joining was cancelled"));
    }
  }
}

TEST_CASE("group: rank 0 can be stopped while somebody is there who says nothing, who is let go") {
  const temporary_folder folder = temporary_folder::for_sockets();
  const std::string path = (folder.path() / "ranks").string();
  std::string said;
  std::jthread joining([&](const std::stop_token& stop) {
    said = what_of([&] { join_group(path, 0, 2, patience, stop); });
  });
  auto silent = connect_to(path, patience);
  while (!silent) silent = connect_to(path, patience);
  joining.request_stop();
  std::vector<std::byte> room(1);
  const auto got = receive_packet(*silent, room);
  CHECK((got ? got->bytes == 0 : got.error().code == system_code(ECONNRESET)));
  joining.join();
  CHECK(holds(said, "joining was cancelled"));
}

TEST_CASE("group: a rank that was not stopped in time has joined, and its calls are its own") {
  for (const rank_transport transport : process_transports) {
    CAPTURE(name_of(transport));
    const meeting_place place(transport);
    std::vector<std::string> said(2);
    std::vector<std::jthread> threads;
    for (const std::uint32_t rank : {0U, 1U}) {
      threads.emplace_back([&said, &place, rank] {
        said[rank] = what_of([&] {
          std::stop_source stop;
          const auto all = join_group(place.address(), rank, 2, patience, stop.get_token());
          stop.request_stop();
          all->barrier();
        });
      });
    }
    threads.clear();
    CHECK(said == std::vector<std::string>(2));
  }
}

TEST_CASE("group: a process that is killed ends the load of the others, which say which it was") {
  const made_file file(equal_tensors(4, 1 << 20));
  const temporary_folder folder = temporary_folder::for_sockets();
  for (const rank_transport transport : process_transports) {
    CAPTURE(name_of(transport));
    const meeting_place place(transport);
    std::vector<child_program> all;
    for (unsigned rank = 0; rank < 3; ++rank) {
      std::vector<std::string> command = {
          RANKS_TOOL, place.address(), std::to_string(rank), "3",
          "60000",    "divided",       file.name(),          folder.path().string()};
      if (rank == 2) command.push_back("wait");
      command.insert(command.end(), {"tensor,t1", "tensor,t3"});
      all.emplace_back(command);
    }
    for (child_program& each : all) CHECK(each.read_line() == "ready");
    all[2].kill();
    for (unsigned rank : {0U, 1U}) {
      const std::string line = all[rank].read_line();
      CHECK((holds(line, "rank 2: it ended without") || holds(line, "rank 2: it has left")));
      CHECK(all[rank].exit_code() == 1);
    }
  }
}

TEST_CASE("group: 64 processes need few descriptors each") {
  constexpr unsigned ranks = 64;
  for (const rank_transport transport : process_transports) {
    CAPTURE(name_of(transport));
    const meeting_place place(transport);
    std::vector<child_program> all;
    for (unsigned rank = 0; rank < ranks; ++rank) {
      // Rank 0 has 63 connections while the ranks join, and 2 for each peer.
      all.emplace_back(std::vector<std::string>{
          "/bin/sh", "-c", "ulimit -n 256 && exec \"$@\"", "sh", RANKS_TOOL, place.address(),
          std::to_string(rank), std::to_string(ranks), "60000", "meet", "-", "-"});
    }
    for (child_program& each : all) CHECK(each.read_line() == "met");
    for (child_program& each : all) CHECK(each.exit_code() == 0);
  }
}
