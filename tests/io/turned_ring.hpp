// SPDX-License-Identifier: Apache-2.0
#pragma once

// A ring on a loop that the test runs step by step, and reads that store their results.

#include <boost/asio/io_context.hpp>
#include <climits>
#include <memory>

#include "base/fault.hpp"
#include "io/ring/ring.hpp"
#include "support/skip.hpp"

namespace ringload::testing {

// The result of the kernel. Must not move while the read is in flight.
struct answer : io_completion {
  answer() {
    done = [](io_completion& self, int got) {
      auto& mine = static_cast<answer&>(self);
      mine.res = got;
      ++mine.times;
    };
  }
  int res = INT_MIN;
  unsigned times = 0;
};

class turned_ring {
 public:
  explicit turned_ring(unsigned depth) {
    auto made = ring::make(loop, depth);
    if (made) {
      with = std::move(*made);
    } else {
      skip(message_of(made.error()));
    }
  }
  turned_ring(const turned_ring&) = delete;
  turned_ring& operator=(const turned_ring&) = delete;
  ~turned_ring() {
    if (!with) return;
    with->stop();
    loop.run();
  }

  // False if this machine refuses io_uring. In this case, the test has printed the reason.
  explicit operator bool() const noexcept { return with != nullptr; }
  ring* operator->() const noexcept { return with.get(); }

  void turn_until_answered(const answer& a) {
    while (a.times == 0) loop.run_one();
  }

  // Starts the read and waits for it.
  int read(const ring::transfer& what) {
    answer a;
    with->start(what, a);
    turn_until_answered(a);
    return a.res;
  }

  boost::asio::io_context loop;
  std::unique_ptr<ring> with;
};

// A read that uses no registered buffer and no worker.
inline ring::transfer plain_read(int fd, void* into, std::uint32_t bytes,
                                 std::uint64_t file_offset) {
  return {fd, into, bytes, file_offset, -1, false};
}

}  // namespace ringload::testing
