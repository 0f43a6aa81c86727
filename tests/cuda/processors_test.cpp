// SPDX-License-Identifier: Apache-2.0

// Copy threads run on the processors that are near the device.

#include <doctest/doctest.h>
#include <sched.h>

#include <boost/asio/use_future.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <ringload/loader.hpp>
#include <string>
#include <vector>

#include "base/processors.hpp"
#include "cuda/fresh_runtime.hpp"
#include "device/cuda/numa_memory.hpp"
#include "support/counted_device.hpp"
#include "support/made_checkpoint.hpp"
#include "support/skip.hpp"
#include "support/small_options.hpp"
#include "support/temporary_folder.hpp"
#include "support/waiting.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

std::vector<int> numbers_of(const std::optional<cpu_set_t>& processors) {
  std::vector<int> numbers;
  for (int number = 0; processors && number < CPU_SETSIZE; ++number) {
    if (CPU_ISSET(number, &*processors)) numbers.push_back(number);
  }
  return numbers;
}

std::optional<cpu_set_t> own_processors() {
  cpu_set_t own;
  if (::sched_getaffinity(0, sizeof own, &own) != 0) return std::nullopt;
  return own;
}

// The last processor that this process may use.
cpu_set_t last_processor() {
  cpu_set_t last;
  CPU_ZERO(&last);
  CPU_SET(numbers_of(own_processors()).back(), &last);
  return last;
}

// Returns the number of threads that may run on exactly these processors.
unsigned threads_on(const cpu_set_t& processors) {
  unsigned count = 0;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    cpu_set_t own;
    const int id = std::stoi(thread.path().filename());
    if (::sched_getaffinity(id, sizeof own, &own) == 0 && CPU_EQUAL(&own, &processors)) ++count;
  }
  return count;
}

}  // namespace

TEST_CASE("processors: lists of the kernel") {
  CHECK(numbers_of(parse_processors("0-3,8,10-11\n")) == std::vector<int>{0, 1, 2, 3, 8, 10, 11});
  CHECK(numbers_of(parse_processors("1023")) == std::vector<int>{1023});
  for (const char* const wrong :
       {"", "\n", "x", "1-", "3-1", "1,", "1 2", "1024", "0-99999999999", "-1", ",1"}) {
    CAPTURE(wrong);
    CHECK_FALSE(parse_processors(wrong).has_value());
  }
}

TEST_CASE("processors: the device's node has them; another machine may not say") {
  const fresh_runtime around;
  const temporary_folder nodes;
  CHECK_FALSE(cuda::processors_near(1, nodes.path()).has_value());
  std::filesystem::create_directory(nodes.path() / "node0");
  std::ofstream(nodes.path() / "node0" / "cpulist") << "4-5,7\n";
  CHECK(numbers_of(cuda::processors_near(1, nodes.path())) == std::vector<int>{4, 5, 7});
  fake_cudart::fail("cudaDeviceGetAttribute", 1, cudaErrorInvalidValue);
  CHECK_FALSE(cuda::processors_near(1, nodes.path()).has_value());
}

TEST_CASE("processors: fewer than there are threads, or ones that are not ours, are not used") {
  const cpu_set_t last = last_processor();
  CHECK(numbers_of(usable_processors(last, 1)) == numbers_of(last));
  CHECK_FALSE(usable_processors(last, 2).has_value());
  cpu_set_t all;
  std::memset(&all, 0xFF, sizeof all);
  CHECK(numbers_of(usable_processors(all, 1)) == numbers_of(own_processors()));
}

TEST_CASE("processors: a loader's copy threads are near its device, no other thread is bound") {
  const made_file file(equal_tensors(5, 10'000));
  const cpu_set_t last = last_processor();
  if (numbers_of(own_processors()).size() < 2) return skip("this process has one processor");
  loader_options within = small_options();
  within.copy_threads = 1;
  within.reader_threads = 1;
  const unsigned before = threads_on(last);
  processors_near_counted = last;
  {
    loader with(counted_host(), within);
    get(with.load_async(file.name(), use_future));
    CHECK(threads_on(last) == before + 1);
  }
  {
    const loader of_two({counted_host(), host()}, within);
    CHECK(threads_on(last) == before);
  }
  processors_near_counted.reset();
  const loader with(counted_host(), within);
  CHECK(threads_on(last) == before);
}
