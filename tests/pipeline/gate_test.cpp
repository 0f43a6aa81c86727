// SPDX-License-Identifier: Apache-2.0

// Who is let through to the drive, and in which order.

#include "pipeline/gate.hpp"

#include <doctest/doctest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <string>
#include <utility>

using namespace ringload;
using detail::gate;

namespace {

class passing {
 public:
  explicit passing(std::uint64_t bytes_in_flight) : at_(loop_, ordering(bytes_in_flight)) {}

  // Returns who has been let in since.
  std::string comes(char name, std::uint64_t bytes, bool awaited = false) {
    boost::asio::co_spawn(loop_, enter(*this, name, bytes, awaited), boost::asio::detached);
    return so_far();
  }
  std::string leaves(std::uint64_t bytes) {
    at_.leave(bytes);
    return so_far();
  }

 private:
  static limits ordering(std::uint64_t bytes) {
    limits within;
    within.bytes_in_flight = bytes;
    return within;
  }
  static boost::asio::awaitable<void> enter(passing& all, char name, std::uint64_t bytes,
                                            bool awaited) {
    passing& mine = all;
    co_await mine.at_.enter(bytes, awaited);
    mine.inside_ += name;
  }
  std::string so_far() {
    loop_.restart();
    loop_.poll();
    return std::exchange(inside_, {});
  }

  boost::asio::io_context loop_;
  gate at_;
  std::string inside_;
};

}  // namespace

TEST_CASE("gate: as many as there is room for, in their order") {
  passing at(8);
  CHECK(at.comes('a', 4) == "a");
  CHECK(at.comes('b', 4) == "b");
  CHECK(at.comes('c', 4) == "");
  CHECK(at.comes('d', 4) == "");
  CHECK(at.leaves(4) == "c");
  CHECK(at.leaves(4) == "d");
}

TEST_CASE("gate: who is awaited comes before all others, and not before his like") {
  passing at(4);
  CHECK(at.comes('a', 4) == "a");
  CHECK(at.comes('b', 4) == "");
  CHECK(at.comes('c', 4, true) == "");
  CHECK(at.comes('d', 4, true) == "");
  CHECK(at.leaves(4) == "c");
  CHECK(at.leaves(4) == "d");
  CHECK(at.leaves(4) == "b");
}

TEST_CASE("gate: who wants much is not overtaken by those who want little") {
  passing at(8);
  CHECK(at.comes('a', 4) == "a");
  CHECK(at.comes('b', 8) == "");
  CHECK(at.comes('c', 1) == "");
  CHECK(at.leaves(4) == "b");
  CHECK(at.leaves(8) == "c");
}

TEST_CASE("gate: one that makes room for several lets them all in") {
  passing at(8);
  CHECK(at.comes('a', 8) == "a");
  CHECK(at.comes('b', 2) == "");
  CHECK(at.comes('c', 2) == "");
  CHECK(at.comes('d', 8) == "");
  CHECK(at.leaves(8) == "bc");
  CHECK(at.leaves(2) == "");
  CHECK(at.leaves(2) == "d");
}

TEST_CASE("gate: one at least is inside, however large") {
  passing at(1);
  CHECK(at.comes('a', 100) == "a");
  CHECK(at.comes('b', 100) == "");
  CHECK(at.leaves(100) == "b");
}
