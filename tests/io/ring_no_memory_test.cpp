// SPDX-License-Identifier: Apache-2.0

// A ring whose loop has no memory for a posted handler. A separate executable, because failing_new
// replaces operator new.

#include <doctest/doctest.h>
#include <sys/syscall.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <string>

#include "base/unique_fd.hpp"
#include "io/ring/ring.hpp"
#include "io/turned_ring.hpp"
#include "support/failing_new.hpp"
#include "support/in_child.hpp"
#include "support/noise_file.hpp"
#include "support/seccomp.hpp"
#include "support/skip.hpp"
#include "support/temporary_folder.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

// Starts a read whose first allocation fails. A sanitizer has its own version of aligned_alloc(),
// so in its build no allocation fails.
void start_without_memory(ring& r, const ring::transfer& read, io_completion& op) {
  until_failure = 0;
  r.start(read, op);
  until_failure = -1;
}

}  // namespace

TEST_CASE("ring: without memory for the post, a read is still submitted later, with the others") {
  const temporary_folder folder;
  const std::filesystem::path path = folder.path() / "noise";
  write_noise(path, 8192);
  turned_ring r(4);
  if (!r) return;
  const unique_fd fd = open_file(path);
  std::array<std::array<std::byte, 4096>, 2> into = {};
  std::array<answer, 2> answers;
  start_without_memory(*r.with, plain_read(fd.get(), into[0].data(), 4096, 0), answers[0]);
  CHECK(r->in_kernel() == 0);
  r->start(plain_read(fd.get(), into[1].data(), 4096, 4096), answers[1]);
  CHECK(r->in_kernel() == 0);
  r.loop.run_one();
  CHECK(r->in_kernel() == 2);
  for (const answer& one : answers) {
    r.turn_until_answered(one);
    CHECK(one.res == 4096);
  }
  CHECK(is_noise(into[0], 0));
  CHECK(is_noise(into[1], 4096));
}

TEST_CASE("ring: after refused submissions, a read fails though the post has no memory") {
  const std::string said = said_in_child([]() -> std::string {
    boost::asio::io_context loop;
    auto created_ring = ring::make(loop, 4);
    if (!created_ring) return "no ring";
    refuse_calls({SYS_io_uring_enter}, EPERM);
    std::array<char, 16> room = {};
    answer first;
    (*created_ring)->start(plain_read(0, room.data(), 16, 0), first);
    while (first.times == 0) loop.run_one();
    // The ring submits nothing any more. Only the posted handler completes later reads.
    answer second;
    start_without_memory(**created_ring, plain_read(0, room.data(), 16, 0), second);
    if (second.times > 0) return "completed inside start";
    loop.poll();
    if (second.times == 0) {
      static_cast<void>(
          created_ring->release());  // A ring with a prepared read must not be destroyed.
      return "never completed";
    }
    (*created_ring)->stop();
    return first.res == -EPERM && second.res == -EPERM ? "EPERM" : "another result";
  });
  if (said == "no ring") return skip("io_uring is refused here");
  CHECK(said == "EPERM");
}
