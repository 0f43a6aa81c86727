// SPDX-License-Identifier: Apache-2.0

// RLIMIT_MEMLOCK is too low for registered buffers. A separate process, because it drops privileges
// permanently.

#include <doctest/doctest.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <boost/asio/use_future.hpp>
#include <cerrno>
#include <ringload/ringload.hpp>

#include "support/made_checkpoint.hpp"
#include "support/skip.hpp"
#include "support/small_options.hpp"
#include "support/waiting.hpp"

namespace asio = boost::asio;
using namespace ringload;
using namespace ringload::testing;

namespace {

// Threads that this thread starts later may lock only 64 KiB.
bool lock_little() {
  const ::rlimit little = {64 * 1024, 64 * 1024};
  if (::setrlimit(RLIMIT_MEMLOCK, &little) != 0) return false;
  ::__user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  ::__user_cap_data_struct rights[2] = {};
  return ::syscall(SYS_capset, &header, rights) == 0;
}

}  // namespace

TEST_CASE("RLIMIT_MEMLOCK too low: the slots stay unregistered, the loader says why and loads") {
  REQUIRE(lock_little());
  loader_options within = small_options(16);
  within.engine = read_engine::automatic;
  loader with(host(), within);
  const load_stats s = with.stats();
  if (s.engine != read_engine::ring) return skip("no io_uring: " + s.engine_reason);
  const made_file file({{"a", 999}, f32("b", 300'000), {"c", 1'000'000}}, 3);
  for (const read_route route : {read_route::automatic, read_route::buffered}) {
    make_cold(file.path());
    const model loaded = get(with.load_async(file.name(), by(route), use_future));
    CHECK(loaded.size() == 3);
    CHECK(first_difference(loaded) == "");
    // Converted tensors are staged in slots.
    load_options converting = by(route);
    converting.dtype = dtype::f16;
    const load_stats slotted = get(with.load_async(file.name(), converting, use_future)).stats();
    CHECK(slotted.bytes_unstaged < slotted.bytes_total);
    CHECK_FALSE(slotted.slots_registered);
    CHECK(holds(slotted.registration_reason, "RLIMIT_MEMLOCK"));
  }
}
