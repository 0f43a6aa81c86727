// SPDX-License-Identifier: Apache-2.0

// The real CUDA runtime, with or without a GPU.

#include <doctest/doctest.h>

#include <ringload/cuda.hpp>
#include <ringload/error.hpp>
#include <ringload/loader.hpp>
#include <string>

using namespace ringload;

TEST_CASE("cuda: the real runtime gives a loader, or says what is missing") {
  std::string why;
  const int count = cuda_device_count(&why);
  CHECK((count > 0) == why.empty());
  try {
    const loader with(cuda_device(0));
    CHECK(count > 0);
  } catch (const error& e) {
    CHECK(count == 0);
    CHECK(e.code() == errc::device_unavailable);
    CHECK(std::string(e.what()) == "cuda:0: no CUDA device: " + why);
  }
}

TEST_CASE("cuda: its errors have their own category and their own names") {
  const boost::system::error_code code(2, cuda_category());
  CHECK(std::string(cuda_category().name()) == "cuda");
  CHECK(code.message() == "cudaErrorMemoryAllocation: out of memory");
}
