// SPDX-License-Identifier: Apache-2.0

// A launch fails after the device has received some of the slot's copies. These copies still read
// the slot, so the load must not end before them. Runs only on the stand-in.

#include <doctest/doctest.h>

#include <boost/asio/use_future.hpp>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "cuda/fresh_runtime.hpp"
#include "cuda/on_device.hpp"
#include "support/converted.hpp"
#include "support/small_options.hpp"
#include "support/waiting.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

// Three launches, of which the third fails. The file fits in one slot, and the loader has one slot.
void check_failed_launch(const std::vector<made_tensor>& tensors, const load_options& how,
                         const std::string& function, unsigned nth) {
  CAPTURE(function);
  const fresh_runtime around;
  {
    loader with(cuda_device(1), small_options(1));
    const made_file file(tensors);
    fake_cudart::hold();
    fake_cudart::fail(function, nth, cudaErrorIllegalAddress);
    auto load = with.load_async(file.name(), how, use_future);
    wait_for_copies(2);
    // The load still waits after several checks of the clock, and another load does not get the
    // slot.
    auto next = with.load_async(file.name(), how, use_future);
    CHECK(load.wait_for(std::chrono::milliseconds(50)) == std::future_status::timeout);
    CHECK(fake_cudart::waiting_copies() == 2);
    fake_cudart::let_go();
    const auto failed = failure_of(std::move(load));
    REQUIRE(failed.has_value());
    CHECK(failed->code().category() == cuda_category());
    CHECK(failed->code().value() == cudaErrorIllegalAddress);
    CHECK(get(std::move(next)).size() == tensors.size());
  }
}

}  // namespace

TEST_CASE("cuda: a copy that cannot be launched does not free a slot that others still read") {
  check_failed_launch({{"a", 1000}, {"b", 1000}, {"c", 1000}}, {}, "cudaMemcpyAsync", 3);
}

TEST_CASE("cuda: a kernel that cannot be launched does not free a slot that others still read") {
  // More pieces than a table has: a copy into the staging buffer, and two kernels.
  check_failed_launch(equal_tensors(200, 200), {}, "cudaLaunchKernel", 2);
}
