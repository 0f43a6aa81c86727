// SPDX-License-Identifier: Apache-2.0

// Who holds what of the device, and until when. On the stand-in only.

#include <doctest/doctest.h>

#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <optional>
#include <ringload/dlpack.hpp>
#include <thread>
#include <vector>

#include "cuda/on_device.hpp"
#include "support/fake_cudart/fake_cudart.hpp"
#include "support/small_limits.hpp"
#include "support/waiting.hpp"

using namespace ringload;
using namespace ringload::testing;
using boost::asio::use_future;

namespace {

// Begins with a fresh runtime, and sees at the end that all was given back in good order.
class fresh_runtime {
 public:
  fresh_runtime() { fake_cudart::reset(); }
  ~fresh_runtime() {
    CHECK(fake_cudart::left_over() == "");
    for (const std::string& each : fake_cudart::misuse()) CHECK(each == "");
    fake_cudart::reset();
  }
};

// Until the device has copies to do, which it does not begin with while it is held.
void wait_for_copies(std::size_t count) {
  while (fake_cudart::waiting_copies() < count) std::this_thread::yield();
}

limits keeping(std::uint64_t bytes) {
  limits within = small_limits();
  within.kept_bytes = bytes;
  return within;
}

}  // namespace

TEST_CASE("cuda: a loader pins its slots with its first load, no more, and gives everything back") {
  const fresh_runtime around;
  const made_file file(equal_tensors(5, 10'000));
  {
    loader with(cuda_device(1), small_limits());
    CHECK(with.device().name() == "cuda:1");
    CHECK(fake_cudart::left_over() == "8 streams ");
    get(with.load_async(file.name(), use_future));
    CHECK(holds(fake_cudart::left_over(), "pinned ranges "));
    CHECK(with.stats().pinned_bytes_peak >= small_slot);
    CHECK(with.stats().pinned_bytes_peak <= 4 * small_slot);
  }
  CHECK(fake_cudart::left_over() == "");
}

TEST_CASE("cuda: tensors outlive the loader, and any thread may let go of the last one") {
  const fresh_runtime around;
  const made_file file(equal_tensors(5, 10'000));
  tensor last;
  {
    loader with(cuda_device(1), small_limits());
    last = get(with.load_async(file.name(), use_future)).at("t3");
  }
  CHECK(bytes_on_device(last).size() == 10'000);
  CHECK(fake_cudart::left_over() != "");
  std::thread([one = std::exchange(last, {})]() mutable { one = {}; }).join();
  CHECK(fake_cudart::left_over() == "");

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
    loader with(cuda_device(1), small_limits());
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
    loader with(cuda_device(1), small_limits());
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
  CHECK(fake_cudart::left_over() != "");
  std::thread([a] { a->deleter(a); }).join();
  CHECK(fake_cudart::left_over() == "");
}

TEST_CASE("cuda: a model that the device cannot hold is refused before the first read") {
  const fresh_runtime around;
  loader with(cuda_device(1), small_limits());
  const made_file file(only("large", fake_cudart::memory_bytes + 1));
  pending_load load(with, file.name());
  const auto failed = load.failure();
  REQUIRE(failed.has_value());
  CHECK(failed->code() == errc::memory_exceeded);
  CAPTURE(failed->what());
  CHECK(holds(failed->what(), "need 67,108,865 bytes"));
  CHECK(holds(failed->what(), "cuda:1 has 67,108,864 of 67,108,864 free"));
  CHECK(fake_cudart::calls().count("cudaMalloc") == 0);

  // Free memory that is not in one piece.
  const made_file small(only("small", 1000));
  fake_cudart::fail("cudaMalloc", 1, cudaErrorMemoryAllocation);
  pending_load again(with, small.name());
  const auto refused = again.failure();
  REQUIRE(refused.has_value());
  CHECK(refused->code() == errc::memory_exceeded);
  CHECK(holds(refused->what(), "cudaErrorMemoryAllocation"));
}

TEST_CASE("cuda: a load that is cancelled ends when the device has let go of its slots") {
  const fresh_runtime around;
  loader with(cuda_device(1), small_limits());
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
    loader with(cuda_device(1), small_limits());
    fake_cudart::hold();
    finished.emplace(with, file.name());
    wait_for_copies(4);
    later = std::thread([] { fake_cudart::let_go(); });
  }
  later.join();
  const auto failed = finished->failure();
  CHECK((failed && failed->code() == boost::asio::error::operation_aborted));
}

TEST_CASE("cuda: what cannot be told by a notice the clock finds") {
  const fresh_runtime around;
  loader with(cuda_device(1), small_limits());
  const made_file file(only("a", 1000));
  for (const char* function : {"cudaStreamWaitEvent", "cudaLaunchHostFunc"}) {
    fake_cudart::fail(function, 1, cudaErrorInvalidValue);
    CHECK(first_difference_on_device(get(with.load_async(file.name(), use_future))) == "");
  }
}

TEST_CASE("cuda: a copy that has ended is noticed long before the clock looks") {
  const fresh_runtime around;
  constexpr unsigned reads = 100;
  loader with(cuda_device(1), small_limits(1));
  const made_file file(only("a", reads * small_slot));
  const load_stats stats = get(with.load_async(file.name(), use_future)).stats();
  CHECK(stats.reads >= reads);
  // With one slot each copy would wait for the clock, which looks every 10 ms.
  CHECK(stats.seconds_device_wait < 0.75 * 0.010 * reads);
}

TEST_CASE("cuda: an event that cannot be asked does not free its slot") {
  const fresh_runtime around;
  loader with(cuda_device(1), small_limits());
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

TEST_CASE("cuda: memory that is kept is the next load's, and is given back with the loader") {
  const fresh_runtime around;
  const made_file file(equal_tensors(20, 100'000));
  loader with(cuda_device(1), keeping(8 << 20));
  for (int i = 0; i < 4; ++i) {
    const model loaded = get(with.load_async(file.name(), use_future));
    CHECK(first_difference_on_device(loaded) == "");
    CHECK(loaded.stats().memory_kept == (i > 0));
  }
  CHECK(fake_cudart::calls().at("cudaMalloc") == 1);
  CHECK(fake_cudart::calls().count("cudaFree") == 0);
}

TEST_CASE("cuda: memory that is kept waits for what the device still does with it") {
  const fresh_runtime around;
  const made_file file(equal_tensors(20, 100'000));
  loader with(cuda_device(0), keeping(8 << 20));
  // A consumer's work on a tensor, which has not begun when the tensor is let go of.
  std::vector<std::byte> theirs(100'000, std::byte{0x55});
  cudaStream_t stream = nullptr;
  REQUIRE(cudaHostRegister(theirs.data(), theirs.size(), 0) == cudaSuccess);
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  {
    const tensor used = get(with.load_async(file.name(), use_future)).at("t3");
    fake_cudart::hold();
    REQUIRE(cudaMemcpyAsync(used.data(), theirs.data(), theirs.size(), cudaMemcpyHostToDevice,
                            stream) == cudaSuccess);
  }
  pending_load load(with, file.name());
  CHECK_FALSE(load.completes_within(std::chrono::milliseconds(50)));
  CHECK(fake_cudart::waiting_copies() == 1);
  fake_cudart::let_go();
  CHECK_FALSE(load.failure().has_value());
  CHECK(load.loaded().stats().memory_kept);
  CHECK(first_difference_on_device(load.loaded()) == "");
  CHECK(cudaStreamDestroy(stream) == cudaSuccess);
  CHECK(cudaHostUnregister(theirs.data()) == cudaSuccess);
}

TEST_CASE("cuda: memory that is kept makes room for what needs other memory") {
  const fresh_runtime around;
  const made_file large(only("large", 40 << 20));
  const made_file small(only("small", 30 << 20));
  loader with(cuda_device(1), keeping(fake_cudart::memory_bytes));
  for (const made_file* file : {&large, &small, &large, &small}) {
    const model loaded = get(with.load_async(file->name(), use_future));
    CHECK(first_difference_on_device(loaded) == "");
    CHECK_FALSE(loaded.stats().memory_kept);
  }
  // What somebody has makes no room.
  const model first = get(with.load_async(small.name(), use_future));
  CHECK(first.stats().memory_kept);
  pending_load second(with, large.name());
  const auto failed = second.failure();
  CHECK((failed && failed->code() == errc::memory_exceeded));
}

TEST_CASE("cuda: kept memory that the device cannot be brought to rest for ends that load alone") {
  const fresh_runtime around;
  const made_file file(equal_tensors(20, 100'000));
  loader with(cuda_device(1), keeping(8 << 20));
  (void)get(with.load_async(file.name(), use_future));
  fake_cudart::fail("cudaDeviceSynchronize", 1, cudaErrorIllegalAddress);
  pending_load load(with, file.name());
  const auto failed = load.failure();
  REQUIRE(failed.has_value());
  CHECK(failed->code().category() == cuda_category());
  CHECK(holds(failed->what(), "cudaErrorIllegalAddress"));
  const model loaded = get(with.load_async(file.name(), use_future));
  CHECK_FALSE(loaded.stats().memory_kept);
  CHECK(first_difference_on_device(loaded) == "");
}

TEST_CASE("cuda: loads beside the capture of a graph, and does not spoil it") {
  const fresh_runtime around;
  const made_file file(equal_tensors(5, 3 * small_slot));
  loader with(cuda_device(0), keeping(fake_cudart::memory_bytes / 2));
  model before = get(with.load_async(file.name(), use_future));
  fake_cudart::begin_capture();
  before = {};
  {
    const model loaded = get(with.load_async(file.name(), use_future));
    // Whether nobody reads what was kept cannot be known now.
    CHECK_FALSE(loaded.stats().memory_kept);
    CHECK(first_difference_on_device(loaded) == "");
  }
  CHECK_FALSE(fake_cudart::end_capture());
  const model after = get(with.load_async(file.name(), use_future));
  CHECK(after.stats().memory_kept);
}
