// SPDX-License-Identifier: Apache-2.0

// Machines that refuse io_uring, simulated by a seccomp filter.

#include <doctest/doctest.h>
#include <sys/syscall.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <fstream>
#include <string>
#include <thread>

#include "io/ring/ring.hpp"
#include "support/in_child.hpp"
#include "support/seccomp.hpp"
#include "support/skip.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

// Returns the error of ring::make in a process that refuses the call.
std::string said_when_refused(long call, int error_number) {
  return said_in_child([=]() -> std::string {
    refuse_calls({call}, error_number);
    boost::asio::io_context loop;
    const auto made = ring::make(loop, 4);
    if (made) return "a ring";
    if (made.error().code != errc::engine_unavailable) return "another code";
    return message_of(made.error());
  });
}

bool has_io_uring() {
  return said_in_child([]() -> std::string {
           boost::asio::io_context loop;
           return ring::make(loop, 4) ? "yes" : "no";
         }) == "yes";
}

}  // namespace

TEST_CASE("ring: a refusal as containers refuse names what refused it") {
  const std::string said = said_when_refused(SYS_io_uring_setup, EPERM);
  std::ifstream setting("/proc/sys/kernel/io_uring_disabled");
  int disabled = 0;
  if (setting >> disabled && disabled != 0) {
    CHECK(said ==
          "io_uring_setup: not permitted: kernel.io_uring_disabled is " + std::to_string(disabled));
  } else {
    CHECK(said ==
          "io_uring_setup: not permitted: a seccomp filter refuses it, as the default filter of "
          "containers does");
  }
}

TEST_CASE("ring: other refusals say what is missing") {
  CHECK(said_when_refused(SYS_io_uring_setup, ENOSYS) ==
        "io_uring_setup: this kernel has no io_uring");
  CHECK(said_when_refused(SYS_io_uring_setup, ENOMEM) ==
        "io_uring_setup: no memory: RLIMIT_MEMLOCK or the control group's limit is too low");
  CHECK(said_when_refused(SYS_io_uring_setup, EMFILE) == "io_uring_setup: too many open files");
  CHECK(said_when_refused(SYS_io_uring_setup, ENFILE) == "io_uring_setup: too many open files");
  CHECK(said_when_refused(SYS_io_uring_setup, EACCES) == "io_uring_setup: Permission denied");
}

TEST_CASE("ring: a kernel that refuses all flags is reported") {
  CHECK(said_when_refused(SYS_io_uring_setup, EINVAL) == "io_uring_setup: Invalid argument");
}

TEST_CASE("ring: a seccomp filter that refuses io_uring_enter alone is detected") {
  if (!has_io_uring()) return skip("io_uring is refused here altogether");
  CHECK(said_when_refused(SYS_io_uring_enter, EPERM) ==
        "io_uring_enter: Operation not permitted: a seccomp filter may refuse it");
  CHECK(said_when_refused(SYS_io_uring_register, EPERM) ==
        "io_uring_register: refused: the kernel is older than 5.6, or a seccomp filter refuses it");
}

TEST_CASE("refuse_io_uring: affects threads that are started later") {
  const std::string said = said_in_child([]() -> std::string {
    refuse_io_uring(ENOSYS);
    std::string inside;
    std::thread([&inside] {
      boost::asio::io_context loop;
      const auto made = ring::make(loop, 4);
      inside = made ? "a ring" : message_of(made.error());
    }).join();
    return inside;
  });
  CHECK(said == "io_uring_setup: this kernel has no io_uring");
}

TEST_CASE("ring: if the kernel refuses submissions, pending reads fail, and it does not spin") {
  if (!has_io_uring()) {
    skip("no io_uring");
    return;
  }
  const std::string said = said_in_child([]() -> std::string {
    struct answer : io_completion {
      int res = 1;
    };
    boost::asio::io_context loop;
    auto made = ring::make(loop, 4);
    if (!made) return "no ring";
    refuse_calls({SYS_io_uring_enter}, EPERM);
    std::array<answer, 3> answers;
    std::array<char, 16> room = {};
    const auto start = [&](answer& one) {
      one.done = [](io_completion& self, int res) { static_cast<answer&>(self).res = res; };
      (*made)->start({0, room.data(), 16, 0, -1, false}, one);
    };
    start(answers[0]);
    start(answers[1]);
    while (answers[0].res == 1 || answers[1].res == 1) loop.run_one();
    start(answers[2]);  // Later starts fail at once.
    if (answers[2].res != 1) return "answered from inside start";
    while (answers[2].res == 1) loop.run_one();
    (*made)->stop();
    for (const answer& one : answers) {
      if (one.res != -EPERM) return "another answer";
    }
    return "EPERM";
  });
  CHECK(said == "EPERM");
}
