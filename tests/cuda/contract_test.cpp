// SPDX-License-Identifier: Apache-2.0

// Tests the properties of CUDA that ringload_cuda relies on. Runs on the stand-in, which must have
// the same properties, and on a GPU if the machine has one.

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "base/mapping.hpp"
#include "cuda/any_runtime.hpp"
#include "cuda/on_device.hpp"
#include "device/cuda/copy_to_host.hpp"
#include "device/cuda/device_memory.hpp"
#include "device/cuda/kernels.hpp"
#include "device/cuda/peers.hpp"
#include "device/cuda/raii.hpp"
#include "device/cuda/runtime.hpp"
#include "device/cuda/shareable_memory.hpp"
#include "support/skip.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

constexpr std::size_t some_bytes = std::size_t{1} << 20;

bool has_fresh_device() {
  begin_afresh();
  return has_device();
}

bool good(cudaError_t said) { return !cuda::code_of(said); }

// Pinned host memory, filled with one byte value.
class host_bytes {
 public:
  explicit host_bytes(std::byte with, bool pinned = true) : pinned_(pinned) {
    auto made = mapping::make(some_bytes, page_kind::transparent);
    REQUIRE(made.has_value());
    memory_ = std::move(*made);
    fill(with);
    if (pinned) REQUIRE(good(cudaHostRegister(data(), some_bytes, cudaHostRegisterMapped)));
  }
  host_bytes(const host_bytes&) = delete;
  host_bytes& operator=(const host_bytes&) = delete;
  ~host_bytes() {
    if (pinned_) CHECK(good(cudaHostUnregister(data())));
  }
  void fill(std::byte with) { std::memset(data(), static_cast<int>(with), some_bytes); }
  std::byte* data() const noexcept { return memory_.data(); }

 private:
  mapping memory_;
  bool pinned_;
};

// A stream and device memory, and functions that read the memory.
struct scene {
  cuda::stream on;
  cuda::device_buffer staging;
  cuda::device_buffer target;
  cuda::read_back_pool readers;

  scene() {
    REQUIRE_FALSE(cuda::use_device(0));
    REQUIRE(good(cuda::load_kernels()));
    REQUIRE_FALSE(on.open());
    REQUIRE_FALSE(staging.take(some_bytes));
    REQUIRE_FALSE(target.take(some_bytes));
  }
  bool copy(void* to, const void* from) {
    return good(cudaMemcpyAsync(to, from, some_bytes, cudaMemcpyHostToDevice, on.get()));
  }
  // Copies the whole memory, piece by piece.
  bool scatter(const void* from) {
    cuda::scatter_table table = {};
    constexpr std::uint32_t piece = cuda::scatter_piece::bytes_max;
    for (std::size_t at = 0; at < some_bytes; at += piece) {
      table.pieces[table.count++] = {
          static_cast<const std::byte*>(from) + at, target.data() + at, piece, {}};
    }
    return good(cuda::launch_scatter(table, on.get()));
  }
  bool wait() { return good(cudaStreamSynchronize(on.get())); }
  // Returns true if all bytes of the target have this value.
  bool holds(std::byte value) {
    std::vector<std::byte> found(some_bytes);
    REQUIRE_FALSE(readers.copy(target.data(), found));
    return std::all_of(found.begin(), found.end(), [&](std::byte b) { return b == value; });
  }
};

// Runs in a new thread, as in the library.
void in_own_thread(const std::function<void()>& work) {
  std::thread([&] {
    CHECK_FALSE(cuda::use_device(0));
    work();
  }).join();
}

bool has_two_devices() {
  if (!has_fresh_device()) return false;
  if (cuda_device_count() > 1) return true;
  skip("one CUDA device");
  return false;
}

// Every call that a load makes. The constructor allocates and the destructor frees.
class all_calls {
 public:
  all_calls() {
    REQUIRE_FALSE(end_.make());
    CHECK_FALSE(in_.holds(std::byte{1}));  // Pins the memory of the copies to the host.
  }

  void make() {
    from_.fill(std::byte{1});
    CHECK(in_.copy(in_.staging.data(), from_.data()));
    CHECK(in_.scatter(in_.staging.data()));
    CHECK_FALSE(end_.record(in_.on.get()));
    const cudaError_t said = cudaEventQuery(end_.get());
    CHECK((said == cudaErrorNotReady || said == cudaSuccess));
    (void)cudaGetLastError();
    CHECK_FALSE(end_.wait());
    CHECK(cudaEventQuery(end_.get()) == cudaSuccess);
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    CHECK(good(cudaMemGetInfo(&free_bytes, &total_bytes)));
    CHECK(in_.holds(std::byte{1}));
  }

 private:
  scene in_;
  host_bytes from_{std::byte{1}};
  cuda::event end_;
};

}  // namespace

TEST_CASE("contract: a stream keeps its order, so a staging buffer needs no other guard") {
  if (!has_fresh_device()) return;
  scene in;
  const host_bytes first(std::byte{1});
  const host_bytes second(std::byte{2});
  for (int round = 0; round < 20; ++round) {
    CHECK(in.copy(in.staging.data(), first.data()));
    CHECK(in.scatter(in.staging.data()));
    CHECK(in.copy(in.staging.data(), second.data()));
    CHECK(in.wait());
    if (!reading_destroys || round == 0) CHECK(in.holds(std::byte{1}));
  }
}

TEST_CASE("contract: a kernel reads pinned memory by the address that the device has for it") {
  if (!has_fresh_device()) return;
  scene in;
  const host_bytes from(std::byte{3});
  void* there = nullptr;
  REQUIRE(good(cudaHostGetDevicePointer(&there, from.data(), 0)));
  CHECK(in.scatter(there));
  CHECK(in.wait());
  CHECK(in.holds(std::byte{3}));
}

TEST_CASE("contract: an event that was recorded behind a copy comes after it, in any thread") {
  if (!has_fresh_device()) return;
  scene in;
  const host_bytes from(std::byte{4});
  cuda::event end;
  REQUIRE_FALSE(end.make());
  for (int round = 0; round < 20; ++round) {
    CHECK(in.copy(in.target.data(), from.data()));
    CHECK_FALSE(end.record(in.on.get()));
    in_own_thread([&] { CHECK_FALSE(end.wait()); });
    CHECK(cudaEventQuery(end.get()) == cudaSuccess);
  }
  CHECK(in.wait());
}

TEST_CASE("contract: memory that is not pinned may be changed once the call has returned") {
  if (!has_fresh_device()) return;
  expect_pageable();
  scene in;
  host_bytes from(std::byte{5}, false);
  CHECK(in.copy(in.target.data(), from.data()));
  from.fill(std::byte{6});
  CHECK(in.wait());
  CHECK(in.holds(std::byte{5}));
}

TEST_CASE("contract: memory of the device begins at a multiple of 256, and is counted") {
  if (!has_fresh_device()) return;
  const scene in;
  for (const std::size_t bytes : {1U, 255U, 257U, 100'000U}) {
    cuda::device_buffer one;
    REQUIRE_FALSE(one.take(bytes));
    CHECK(reinterpret_cast<std::uintptr_t>(one.data()) % 256 == 0);
  }
  std::size_t before = 0;
  std::size_t after = 0;
  std::size_t total = 0;
  constexpr std::size_t large = std::size_t{32} << 20;
  CHECK(good(cudaMemGetInfo(&before, &total)));
  cuda::device_buffer one;
  REQUIRE_FALSE(one.take(large));
  CHECK(good(cudaMemGetInfo(&after, &total)));
  CHECK(before >= after + large);
}

TEST_CASE("contract: a refused call leaves an error behind, which is taken away") {
  if (!has_fresh_device()) return;
  const scene in;
  const host_bytes pinned(std::byte{7});
  const cudaError_t said = cudaHostRegister(pinned.data(), some_bytes, cudaHostRegisterMapped);
  CHECK(said == cudaErrorHostMemoryAlreadyRegistered);
  CHECK(cuda::code_of(said).value() == said);
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE(
    "contract: no priority is lower than that of streams that ask for none, or we ask for it") {
  if (!has_fresh_device()) return;
  const scene in;
  int lowest = -1;
  int highest = 1;
  CHECK(good(cudaDeviceGetStreamPriorityRange(&lowest, &highest)));
  CHECK(lowest >= 0);
  CHECK(highest <= 0);
}

TEST_CASE("contract: what a load calls neither fails beside a capture nor invalidates it") {
  if (!has_fresh_device()) return;
  const scene in;
  for (const auto mode : {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal,
                          cudaStreamCaptureModeRelaxed}) {
    for (const unsigned flags : {0U, unsigned{cudaStreamNonBlocking}}) {
      CAPTURE(static_cast<int>(mode));
      CAPTURE(flags);
      cudaStream_t captured = nullptr;
      REQUIRE(good(cudaStreamCreateWithFlags(&captured, flags)));
      REQUIRE(good(cudaStreamBeginCapture(captured, mode)));
      in_own_thread([] { all_calls().make(); });
      cudaGraph_t graph = nullptr;
      CHECK(good(cudaStreamEndCapture(captured, &graph)));
      if (graph) CHECK(good(cudaGraphDestroy(graph)));
      CHECK(good(cudaStreamDestroy(captured)));
    }
  }
}

TEST_CASE("contract: a thread that has not said that it knows invalidates what others capture") {
  if (!has_fresh_device()) return;
  const scene in;
  cudaStream_t captured = nullptr;
  REQUIRE(good(cudaStreamCreateWithFlags(&captured, cudaStreamNonBlocking)));
  REQUIRE(good(cudaStreamBeginCapture(captured, cudaStreamCaptureModeGlobal)));
  std::thread([] {
    CHECK(good(cudaSetDevice(0)));
    void* memory = nullptr;
    CHECK(cudaMalloc(&memory, some_bytes) == cudaErrorStreamCaptureUnsupported);
    (void)cudaGetLastError();
  }).join();
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(captured, &graph) == cudaErrorStreamCaptureInvalidated);
  (void)cudaGetLastError();
  CHECK(good(cudaStreamDestroy(captured)));
}

TEST_CASE(
    "contract: a host function that sleeps holds up no copy and no kernel of another stream") {
  if (!has_fresh_device()) return;
  // Calls that free may wait for all work of the device, so they come after the host function.
  cuda::stream theirs;
  all_calls ours;
  REQUIRE_FALSE(theirs.open());
  std::promise<void> over;
  const auto sleep = [](void* until) {
    static_cast<std::promise<void>*>(until)->get_future().wait();
  };
  REQUIRE(good(cudaLaunchHostFunc(theirs.get(), sleep, &over)));
  auto made = std::async(std::launch::async, [&] { in_own_thread([&] { ours.make(); }); });
  const bool ended = made.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
  over.set_value();
  made.get();
  CHECK(ended);
  CHECK(good(cudaStreamSynchronize(theirs.get())));
}

TEST_CASE("contract: an event on the default stream comes after work on blocking streams") {
  if (!has_fresh_device()) return;
  scene in;
  const host_bytes from(std::byte{8});
  cudaStream_t blocking = nullptr;
  REQUIRE(good(cudaStreamCreateWithFlags(&blocking, 0)));
  cuda::event end;
  REQUIRE_FALSE(end.make());
  CHECK(good(cudaMemcpyAsync(in.target.data(), from.data(), some_bytes, cudaMemcpyHostToDevice,
                             blocking)));
  CHECK_FALSE(end.record(nullptr));
  CHECK_FALSE(end.wait());
  CHECK(in.holds(std::byte{8}));
  CHECK(good(cudaStreamDestroy(blocking)));
}

TEST_CASE("contract: memory that is shared by a descriptor has the same bytes at another address") {
  if (!has_fresh_device()) return;
  scene in;
  cuda::shareable_memory first;
  const boost::system::error_code made = first.make(0, some_bytes);
  if (made.value() == cudaErrorNotSupported) {
    skip("the driver cannot share memory by descriptors");
    return;
  }
  REQUIRE_FALSE(made);
  unique_fd descriptor;
  REQUIRE_FALSE(first.share(descriptor));
  cuda::shareable_memory second;
  REQUIRE_FALSE(second.open(0, descriptor.get(), first.bytes()));
  CHECK(first.address() != second.address());
  CHECK(reinterpret_cast<std::uintptr_t>(second.address()) % 256 == 0);
  const host_bytes from(std::byte{9});
  CHECK(in.copy(first.address(), from.data()));
  CHECK(in.wait());
  std::vector<std::byte> found(some_bytes);
  REQUIRE_FALSE(in.readers.copy(static_cast<const std::byte*>(second.address()), found));
  CHECK(std::ranges::all_of(found, [](std::byte b) { return b == std::byte{9}; }));
  cuda::shareable_memory larger;
  CHECK(larger.open(0, descriptor.get(), 2 * first.bytes()));
}

TEST_CASE("contract: memory that is pinned for all devices is pinned already for the second one") {
  if (!has_two_devices()) return;
  auto made = mapping::make(some_bytes, page_kind::transparent);
  REQUIRE(made.has_value());
  constexpr unsigned flags = cudaHostRegisterMapped | cudaHostRegisterPortable;
  REQUIRE_FALSE(cuda::use_device(0));
  REQUIRE(good(cudaHostRegister(made->data(), some_bytes, flags)));
  REQUIRE_FALSE(cuda::use_device(1));
  const cudaError_t said = cudaHostRegister(made->data(), some_bytes, flags);
  (void)cudaGetLastError();
  CHECK(said == cudaErrorHostMemoryAlreadyRegistered);
  void* there = nullptr;
  CHECK(good(cudaHostGetDevicePointer(&there, made->data(), 0)));
  REQUIRE_FALSE(cuda::use_device(0));
  CHECK(good(cudaHostUnregister(made->data())));
}

TEST_CASE("contract: a device copies out of memory of another one that it was let reach") {
  if (!has_two_devices()) return;
  if (!cuda::reaches(1, 0, {})) {
    skip("the devices are not connected");
    return;
  }
  CHECK(cuda::reaches(1, 0, {}));  // Also at the second call.
  const host_bytes from(std::byte{7});
  scene first;
  REQUIRE(first.copy(first.target.data(), from.data()));
  REQUIRE(first.wait());
  {
    REQUIRE_FALSE(cuda::use_device(1));
    cuda::stream on;
    cuda::device_buffer target;
    cuda::read_back_pool readers;
    REQUIRE_FALSE(on.open());
    REQUIRE_FALSE(target.take(some_bytes));
    CHECK(good(cudaMemcpyAsync(target.data(), first.target.data(), some_bytes, cudaMemcpyDefault,
                               on.get())));
    CHECK(good(cudaStreamSynchronize(on.get())));
    std::vector<std::byte> found(some_bytes);
    REQUIRE_FALSE(readers.copy(target.data(), found));
    CHECK(std::ranges::all_of(found, [](std::byte b) { return b == std::byte{7}; }));
  }
  REQUIRE_FALSE(cuda::use_device(0));
  CHECK(first.holds(std::byte{7}));
}
