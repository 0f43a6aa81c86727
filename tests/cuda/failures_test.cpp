// SPDX-License-Identifier: Apache-2.0

// Every call of the runtime that a load makes fails once: the load ends, with that error or without
// it, nothing stays taken, and the next load is as if nothing had been. On the stand-in only.

#include <doctest/doctest.h>

#include <algorithm>
#include <boost/asio/use_future.hpp>
#include <string>

#include "cuda/on_device.hpp"
#include "support/converted.hpp"
#include "support/fake_cudart/fake_cudart.hpp"
#include "support/small_limits.hpp"
#include "support/waiting.hpp"

using namespace ringload;
using namespace ringload::testing;
using boost::asio::use_future;

namespace {

// Failures of one function that are walked: a load makes the same few calls again and again.
constexpr unsigned failures_max = 12;

constexpr cudaError_t ordered = cudaErrorIllegalAddress;

std::string text_of(const std::vector<std::string>& all) {
  std::string text;
  for (const std::string& each : all) text += each + "; ";
  return text;
}

// Small pieces for a batch, and large ones.
std::vector<made_tensor> tensors() {
  std::vector<made_tensor> all = equal_tensors(100, 1000);
  all.push_back({"large", 200'000});
  all.push_back(f32("converted", 20'000));
  return all;
}

// Loads by a loader of their own, one plain and one that converts. Empty if their bytes are right,
// else the error of the one that failed.
std::string one_load(const std::string& path, boost::system::error_code& code) {
  try {
    loader with(cuda_device(1), small_limits());
    std::string said;
    pending_load first(with, path);
    if (const auto failed = first.failure()) {
      code = failed->code();
      said = failed->what();
    } else {
      try {
        const std::string wrong = first_difference_on_device(first.loaded());
        CHECK(wrong == "");
      } catch (const error& e) {
        code = e.code();
        said = e.what();
      }
    }
    const auto failed = failure_of(with.load_async(path, converting_to(dtype::bf16), use_future));
    if (failed) {
      CHECK(said == "");
      code = failed->code();
      said = failed->what();
    }
    // One failure spoils no more than the load that it belongs to.
    const model again = get(with.load_async(path, use_future));
    CHECK(first_difference_on_device(again) == "");
    return said;
  } catch (const error& e) {
    code = e.code();
    return e.what();
  }
}

}  // namespace

TEST_CASE("cuda: each call that fails ends its load, and nothing else") {
  const made_file file(tensors());
  fake_cudart::reset();
  boost::system::error_code code;
  CHECK(one_load(file.name(), code) == "");
  const auto counted = fake_cudart::calls();
  CHECK(counted.size() > 15);
  CHECK(counted.at("launch_conversions") > 0);

  unsigned failed_loads = 0;
  for (const auto& [function, count] : counted) {
    for (unsigned nth = 1; nth <= std::min(count, failures_max); ++nth) {
      CAPTURE(function);
      CAPTURE(nth);
      fake_cudart::reset();
      fake_cudart::fail(function, nth, ordered);
      code.clear();
      const std::string said = one_load(file.name(), code);
      CAPTURE(said);
      if (code) {
        ++failed_loads;
        CHECK(holds(said, "cudaErrorIllegalAddress: what CUDA says about it"));
        CHECK((code.category() == cuda_category() || code == errc::device_unavailable));
      }
      CHECK(fake_cudart::left_over() == "");
      CHECK(text_of(fake_cudart::misuse()) == "");
    }
  }
  CHECK(failed_loads > 15);
  fake_cudart::reset();
}

TEST_CASE("cuda: a context that breaks ends all loads with its error, now and later") {
  const made_file file(equal_tensors(20, 100'000));
  for (const unsigned nth : {1U, 2U, 5U, 30U}) {
    fake_cudart::reset();
    fake_cudart::break_at_copy(nth, cudaErrorECCUncorrectable);
    {
      loader with(cuda_device(1), small_limits());
      pending_load first(with, file.name());
      pending_load second(with, file.name());
      const auto a = first.failure();
      const auto b = second.failure();
      REQUIRE((a && b));
      for (const auto& failed : {*a, *b}) {
        CHECK(failed.code().category() == cuda_category());
        CHECK(failed.code().value() == cudaErrorECCUncorrectable);
        CHECK(holds(failed.what(), "cudaErrorECCUncorrectable"));
      }
      pending_load third(with, file.name());
      const auto c = third.failure();
      CHECK((c && c->code().category() == cuda_category()));
    }
    CHECK(text_of(fake_cudart::misuse()) == "");
  }
  fake_cudart::reset();
}

TEST_CASE("cuda: where copies cannot be batched they go one by one") {
  fake_cudart::reset();
  const made_file file(equal_tensors(500, 100));
  fake_cudart::fail("cudaMemcpyBatchAsync", 1, cudaErrorNotSupported);
  {
    loader with(cuda_device(1), small_limits());
    CHECK(first_difference_on_device(get(with.load_async(file.name(), use_future))) == "");
    CHECK(first_difference_on_device(get(with.load_async(file.name(), use_future))) == "");
    const auto counted = fake_cudart::calls();
    CHECK(counted.at("cudaMemcpyAsync") >= 1000);
  }
  CHECK(fake_cudart::left_over() == "");
  CHECK(text_of(fake_cudart::misuse()) == "");
}

TEST_CASE("cuda: a machine without a device says what is missing") {
  struct without {
    cudaError_t said;
    int driver_version;
    std::string why;
  };
  for (const auto& each : {
           without{cudaErrorInsufficientDriver, 0, "driver not found"},
           without{cudaErrorStubLibrary, 0, "only the toolkit's stub of the driver was found"},
           without{cudaErrorInsufficientDriver, 11080, "the driver is for CUDA 11.8, and 1"},
           without{cudaErrorNoDevice, 13000, "the driver sees none"},
           without{cudaErrorIllegalAddress, 13000, "cudaErrorIllegalAddress: what CUDA says"},
       }) {
    fake_cudart::reset();
    fake_cudart::no_device(each.said, each.driver_version);
    std::string why;
    CHECK(cuda_device_count(&why) == 0);
    CAPTURE(why);
    CHECK(why.find(each.why) == 0);
    try {
      const loader with(cuda_device(0));
      FAIL("a loader was made");
    } catch (const error& e) {
      CHECK(e.code() == errc::device_unavailable);
      CAPTURE(e.what());
      CHECK(holds(e.what(), "no CUDA device: " + each.why));
    }
    CHECK(fake_cudart::left_over() == "");
    CHECK(text_of(fake_cudart::misuse()) == "");
  }
  fake_cudart::reset();
}

TEST_CASE("cuda: a device that is not there is refused by its number") {
  fake_cudart::reset();
  for (const int index : {-1, 2, 1000}) {
    try {
      const loader with(cuda_device(index));
      FAIL("a loader was made");
    } catch (const error& e) {
      CHECK(e.code() == errc::device_unavailable);
      CHECK(holds(e.what(), "no CUDA device " + std::to_string(index) + ": there are 2"));
    }
  }
  CHECK(fake_cudart::left_over() == "");
}
