// SPDX-License-Identifier: Apache-2.0

// Who holds what of the device, and until when. On the stand-in only.

#include <doctest/doctest.h>

#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <future>
#include <optional>
#include <ringload/dlpack.hpp>
#include <thread>
#include <vector>

#include "cuda/fresh_runtime.hpp"
#include "cuda/on_device.hpp"
#include "support/small_options.hpp"
#include "support/waiting.hpp"

using namespace ringload;
using namespace ringload::testing;
using boost::asio::use_future;

TEST_CASE("cuda: a loader pins its slots with its first load, no more, and gives everything back") {
  const fresh_runtime around;
  const made_file file(equal_tensors(5, 10'000));
  {
    loader with(cuda_device(1), small_options());
    CHECK(with.device().name() == "cuda:1");
    CHECK(fake_cudart::left_over() == "2 streams ");
    get(with.load_async(file.name(), use_future));
    CHECK(holds(fake_cudart::left_over(), "pinned ranges "));
    CHECK(with.stats().pinned_bytes_peak >= small_slot);
    CHECK(with.stats().pinned_bytes_peak <= 4 * small_slot);
  }
  CHECK(left_over() == "");
}

TEST_CASE("cuda: tensors outlive the loader, and any thread may let go of the last one") {
  const fresh_runtime around;
  const made_file file(equal_tensors(5, 10'000));
  tensor last;
  {
    loader with(cuda_device(1), small_options());
    last = get(with.load_async(file.name(), use_future)).at("t3");
  }
  CHECK(bytes_on_device(last).size() == 10'000);
  CHECK(left_over() != "");
  std::thread([one = std::exchange(last, {})]() mutable { one = {}; }).join();
  CHECK(left_over() == "");

  // This thread was on device 0 and still is.
  int now = -1;
  CHECK(cudaGetDevice(&now) == cudaSuccess);
  CHECK(now == 0);
}

TEST_CASE("cuda: memory is given back also where the device cannot be set") {
  const fresh_runtime around;
  const made_file file(only("a", 1000));
  model loaded;
  {
    loader with(cuda_device(1), small_options());
    loaded = get(with.load_async(file.name(), use_future));
  }
  fake_cudart::fail("cudaSetDevice", 1, cudaErrorInvalidDevice);
  loaded = {};
}

TEST_CASE("cuda: a DLPack tensor keeps the memory, and names the device") {
  const fresh_runtime around;
  const made_file file({f32("a", 1000), {"b", 0}});
  dlpack::managed_tensor_versioned* a = nullptr;
  dlpack::managed_tensor* b = nullptr;
  void* address = nullptr;
  {
    loader with(cuda_device(1), small_options());
    const model loaded = get(with.load_async(file.name(), use_future));
    a = to_dlpack(loaded.at("a"));
    b = to_legacy_dlpack(loaded.at("b"));
    address = loaded.at("a").data();
  }
  CHECK(a->dl_tensor.device.type == dlpack::device_type::cuda);
  CHECK(a->dl_tensor.device.id == 1);
  CHECK(a->dl_tensor.data == address);
  CHECK(b->dl_tensor.data == nullptr);
  b->deleter(b);
  CHECK(left_over() != "");
  std::thread([a] { a->deleter(a); }).join();
  CHECK(left_over() == "");
}

TEST_CASE("cuda: a model that the device cannot hold is refused before the first read") {
  const fresh_runtime around;
  loader with(cuda_device(1), small_options());
  const made_file file(only("large", fake_cudart::memory_bytes + 1));
  pending_load load(with, file.name());
  const auto failed = load.failure();
  REQUIRE(failed.has_value());
  CHECK(failed->code() == errc::memory_exceeded);
  CAPTURE(failed->what());
  CHECK(holds(failed->what(), "need 67,108,865 bytes"));
  CHECK(holds(failed->what(), "cuda:1 has 67,108,864 of 67,108,864 free"));
  CHECK(fake_cudart::calls().count("cudaMalloc") == 0);

  // Free memory that is not in one piece, also once all is back that was on its way.
  const made_file small(only("small", 1000));
  for (const unsigned nth : {1U, 2U}) {
    fake_cudart::fail("cudaMalloc", nth, cudaErrorMemoryAllocation);
  }
  pending_load again(with, small.name());
  const auto refused = again.failure();
  REQUIRE(refused.has_value());
  CHECK(refused->code() == errc::memory_exceeded);
  CHECK(holds(refused->what(), "cudaErrorMemoryAllocation"));
}

TEST_CASE("cuda: a load that is cancelled ends when the device has let go of its slots") {
  const fresh_runtime around;
  loader with(cuda_device(1), small_options());
  const made_file file(equal_tensors(20, 100'000));
  fake_cudart::hold();
  boost::asio::cancellation_signal stop;
  pending_load load(with, file.name(), stop.slot());
  wait_for_copies(4);
  stop.emit(boost::asio::cancellation_type::terminal);
  // Several looks of the clock later it still waits.
  CHECK_FALSE(load.completes_within(std::chrono::milliseconds(50)));
  fake_cudart::let_go();
  const auto failed = load.failure();
  CHECK((failed && failed->code() == boost::asio::error::operation_aborted));
  CHECK(first_difference_on_device(get(with.load_async(file.name(), use_future))) == "");
}

TEST_CASE("cuda: a loader that is destroyed waits for the device") {
  const fresh_runtime around;
  const made_file file(equal_tensors(20, 100'000));
  std::optional<pending_load> finished;
  std::thread later;
  {
    loader with(cuda_device(1), small_options());
    fake_cudart::hold();
    finished.emplace(with, file.name());
    wait_for_copies(4);
    later = std::thread([] { fake_cudart::let_go(); });
  }
  later.join();
  const auto failed = finished->failure();
  CHECK((failed && failed->code() == boost::asio::error::operation_aborted));
}

TEST_CASE("cuda: an event that cannot be slept on does not free its slot") {
  const fresh_runtime around;
  loader with(cuda_device(1), small_options());
  const made_file file(equal_tensors(20, 100'000));
  fake_cudart::hold();
  fake_cudart::fail("cudaEventSynchronize", 1, cudaErrorInvalidValue);
  pending_load load(with, file.name());
  wait_for_copies(1);
  CHECK_FALSE(load.completes_within(std::chrono::milliseconds(50)));
  fake_cudart::let_go();
  const auto failed = load.failure();
  CHECK((failed && failed->code().category() == cuda_category()));
  CHECK(first_difference_on_device(get(with.load_async(file.name(), use_future))) == "");
}

TEST_CASE("cuda: a host function of the program that does not return holds up no load") {
  const fresh_runtime around;
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  std::promise<void> over;
  const auto sleep = [](void* until) {
    static_cast<std::promise<void>*>(until)->get_future().wait();
  };
  REQUIRE(cudaLaunchHostFunc(stream, sleep, &over) == cudaSuccess);
  {
    loader with(cuda_device(0), small_options());
    const made_file file(equal_tensors(20, 100'000));
    CHECK(first_difference_on_device(get(with.load_async(file.name(), use_future))) == "");
  }
  over.set_value();
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(cudaStreamDestroy(stream) == cudaSuccess);
}

TEST_CASE("cuda: an event that cannot be asked does not free its slot") {
  const fresh_runtime around;
  loader with(cuda_device(1), small_options());
  const made_file file(equal_tensors(20, 100'000));
  fake_cudart::hold();
  pending_load load(with, file.name());
  wait_for_copies(4);
  fake_cudart::fail("cudaEventQuery", 1, cudaErrorInvalidValue);
  CHECK_FALSE(load.completes_within(std::chrono::milliseconds(50)));
  fake_cudart::let_go();
  const auto failed = load.failure();
  CHECK((failed && failed->code().category() == cuda_category()));
  CHECK(first_difference_on_device(get(with.load_async(file.name(), use_future))) == "");
}
