// SPDX-License-Identifier: Apache-2.0

// The order in which reads are admitted to the drive.

#include "runtime/admission_control.hpp"

#include <doctest/doctest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <string>
#include <utility>

using namespace ringload;
using detail::admission_control;

namespace {

class admission_run {
 public:
  explicit admission_run(std::uint64_t bytes_in_flight) : at_(loop_, ordering(bytes_in_flight)) {}

  // Returns the reads that were admitted since the last call.
  std::string arrive(char name, std::uint64_t bytes, bool awaited = false) {
    boost::asio::co_spawn(loop_, enter(*this, name, bytes, awaited), boost::asio::detached);
    return so_far();
  }
  std::string release(std::uint64_t bytes) {
    at_.release(bytes);
    return so_far();
  }

 private:
  static loader_options ordering(std::uint64_t bytes) {
    loader_options within;
    within.bytes_in_flight = bytes;
    return within;
  }
  static boost::asio::awaitable<void> enter(admission_run& all, char name, std::uint64_t bytes,
                                            bool awaited) {
    admission_run& mine = all;
    co_await mine.at_.acquire(bytes, awaited);
    mine.admitted_ += name;
  }
  std::string so_far() {
    loop_.restart();
    loop_.poll();
    return std::exchange(admitted_, {});
  }

  boost::asio::io_context loop_;
  admission_control at_;
  std::string admitted_;
};

}  // namespace

TEST_CASE("admission_control: admits as many as there is room for, first come, first served") {
  admission_run at(8);
  CHECK(at.arrive('a', 4) == "a");
  CHECK(at.arrive('b', 4) == "b");
  CHECK(at.arrive('c', 4) == "");
  CHECK(at.arrive('d', 4) == "");
  CHECK(at.release(4) == "c");
  CHECK(at.release(4) == "d");
}

TEST_CASE("admission_control: awaited reads first, each kind first come, first served") {
  admission_run at(4);
  CHECK(at.arrive('a', 4) == "a");
  CHECK(at.arrive('b', 4) == "");
  CHECK(at.arrive('c', 4, true) == "");
  CHECK(at.arrive('d', 4, true) == "");
  CHECK(at.release(4) == "c");
  CHECK(at.release(4) == "d");
  CHECK(at.release(4) == "b");
}

TEST_CASE("admission_control: a large read is not overtaken by small ones") {
  admission_run at(8);
  CHECK(at.arrive('a', 4) == "a");
  CHECK(at.arrive('b', 8) == "");
  CHECK(at.arrive('c', 1) == "");
  CHECK(at.release(4) == "b");
  CHECK(at.release(8) == "c");
}

TEST_CASE("admission_control: one release can admit several") {
  admission_run at(8);
  CHECK(at.arrive('a', 8) == "a");
  CHECK(at.arrive('b', 2) == "");
  CHECK(at.arrive('c', 2) == "");
  CHECK(at.arrive('d', 8) == "");
  CHECK(at.release(8) == "bc");
  CHECK(at.release(2) == "");
  CHECK(at.release(2) == "d");
}

TEST_CASE("admission_control: one read is always admitted, however large") {
  admission_run at(1);
  CHECK(at.arrive('a', 100) == "a");
  CHECK(at.arrive('b', 100) == "");
  CHECK(at.release(100) == "b");
}

TEST_CASE("admission_control: a mount that latency limits is given more than all first slots") {
  boost::asio::io_context loop;
  loader_options options;
  options.slots = 16;
  const auto limit_after_reads = [&](std::uint32_t slots_max) {
    admission_control mount(loop, options, slots_max);
    CHECK(mount.bytes_max() ==
          (slots_max > 0 ? 16 * options.slot_bytes : bytes_in_flight_at_first));
    std::uint64_t bytes_in_flight = 0;
    for (int i = 0; i < 1000; ++i) {
      for (; bytes_in_flight < mount.bytes_max(); bytes_in_flight += options.slot_bytes) {
        boost::asio::co_spawn(loop, mount.acquire(options.slot_bytes, false),
                              boost::asio::detached);
      }
      loop.restart();
      loop.poll();
      // On a drive of this machine, all reads end at once. The tuner does not measure an idle
      // drive, so its limit does not depend on the time that the test takes.
      do {
        bytes_in_flight -= options.slot_bytes;
        mount.release(options.slot_bytes, std::chrono::milliseconds(50));
      } while (slots_max == 0 && bytes_in_flight > 0);
    }
    return mount.bytes_max();
  };
  CHECK(limit_after_reads(64) == 64 * options.slot_bytes);
  CHECK(limit_after_reads(16) == 16 * options.slot_bytes);
  CHECK(limit_after_reads(0) == bytes_in_flight_at_first);
}
