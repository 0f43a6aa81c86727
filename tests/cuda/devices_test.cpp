// SPDX-License-Identifier: Apache-2.0

// The memory that a loader takes of each device and of the host. Runs only on the stand-in, which
// has two devices.

#include <doctest/doctest.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <boost/asio/use_future.hpp>
#include <fstream>
#include <set>
#include <string>
#include <thread>

#include "cuda/fresh_runtime.hpp"
#include "cuda/on_device.hpp"
#include "support/converted.hpp"
#include "support/skip.hpp"
#include "support/small_options.hpp"
#include "support/waiting.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

using devices = std::set<int>;

// The kernel's flags of the mapping that contains an address.
std::string mapping_flags(const void* of) {
  const auto address = reinterpret_cast<std::uintptr_t>(of);
  std::ifstream in("/proc/self/smaps");
  bool found = false;
  for (std::string line; std::getline(in, line);) {
    const auto dash = line.find('-');
    const auto space = line.find(' ');
    if (dash != std::string::npos && dash < space && line.find(':') > space) {
      const auto begin = std::stoull(line.substr(0, dash), nullptr, 16);
      const auto end = std::stoull(line.substr(dash + 1, space), nullptr, 16);
      found = address >= begin && address < end;
    }
    if (found && line.starts_with("VmFlags:")) return line + ' ';
  }
  return {};
}

}  // namespace

TEST_CASE("cuda: all that a loader does is on its own device, in whatever thread") {
  for (const int index : {0, 1}) {
    const fresh_runtime around;
    const made_file file({f32("a", 70'001), {"b", 500}});
    const auto in_new_thread = [](auto work) { std::thread(work).join(); };
    CHECK(cuda_device_count() == 2);
    CHECK(fake_cudart::contexts().empty());
    model loaded;
    {
      loader with(cuda_device(index), small_options());
      in_new_thread([&] {
        loaded = get(with.load_async(file.name(), converting_to(dtype::bf16), use_future));
      });
      in_new_thread([&] { loaded = get(with.load_async(file.name(), use_future)); });
      CHECK(fake_cudart::contexts() == devices{index});
    }
    in_new_thread([&] { CHECK(first_difference_on_device(loaded) == ""); });
    in_new_thread([&] { release_after(loaded[0], nullptr); });
    in_new_thread([&] { loaded = {}; });
    CHECK(left_over() == "");
    CHECK(fake_cudart::contexts() == devices{index});
  }
}

TEST_CASE("cuda: streams for what is scattered are made when there is something to scatter") {
  const fresh_runtime around;
  loader with(cuda_device(1), small_options(2));
  const auto streams = [] { return fake_cudart::calls()["cudaStreamCreateWithPriority"]; };
  CHECK(streams() == 2);
  (void)get(with.load_async(made_file(only("a", 1'000'000)).name(), use_future));
  CHECK(streams() == 2);
  const made_file other(std::vector<made_tensor>{f32("a", 70'001)});
  (void)get(with.load_async(other.name(), converting_to(dtype::bf16), use_future));
  CHECK(streams() == 4);
}

TEST_CASE("cuda: slots lie on the NUMA node of the device, where there are nodes") {
  const fresh_runtime around;
  loader with(cuda_device(1), small_options());
  (void)get(with.load_async(made_file(only("a", 1'000'000)).name(), use_future));
  const auto pinned = fake_cudart::pinned_memory();
  REQUIRE_FALSE(pinned.empty());
  int policy = -1;
  unsigned long nodes[16] = {};
  const long said =
      ::syscall(SYS_get_mempolicy, &policy, nodes, 8 * sizeof nodes, pinned.front(), MPOL_F_ADDR);
  if (said != 0) {
    skip("the kernel has no NUMA, or does not say");
    return;
  }
  CHECK(policy == MPOL_PREFERRED);
  CHECK(nodes[0] == 1);
}

TEST_CASE("cuda: a child process is given no copy of pinned memory") {
  const fresh_runtime around;
  loader with(cuda_device(1), small_options());
  (void)get(with.load_async(made_file(only("a", 1'000'000)).name(), use_future));
  const auto pinned = fake_cudart::pinned_memory();
  CHECK_FALSE(pinned.empty());
  for (const void* each : pinned) CHECK(holds(mapping_flags(each), " dc "));
}
