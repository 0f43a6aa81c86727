// SPDX-License-Identifier: Apache-2.0

// The thread that waits for signals.

#include "interrupts.hpp"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <system_error>
#include <thread>

#include "support/descriptors.hpp"
#include "support/skip.hpp"

using namespace ringload;

namespace {

// Creates an interrupt_stop while this user may start no thread. Returns true if it was refused.
// Must be called in a thread of its own, which becomes another user, because root has no limit.
bool is_stop_refused() {
  constexpr int nobody = 65534;
  if (::getuid() == 0 && ::syscall(SYS_setresuid, nobody, nobody, nobody) != 0) return false;
  ::rlimit before = {};
  ::getrlimit(RLIMIT_NPROC, &before);
  const ::rlimit none = {0, before.rlim_max};
  if (::setrlimit(RLIMIT_NPROC, &none) != 0) return false;
  bool is_refused = false;
  try {
    const tool::interrupt_stop stop;
  } catch (const std::system_error&) {
    is_refused = true;
  }
  ::setrlimit(RLIMIT_NPROC, &before);
  return is_refused;
}

}  // namespace

TEST_CASE("interrupts: a stop whose thread is refused closes its descriptor") {
  const std::size_t before = testing::open_descriptors();
  bool is_refused = false;
  std::thread([&] { is_refused = is_stop_refused(); }).join();
  CHECK(testing::open_descriptors() == before);
  if (!is_refused) return testing::skip("this user may start threads beyond the limit");
}
