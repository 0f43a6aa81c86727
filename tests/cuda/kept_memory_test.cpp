// SPDX-License-Identifier: Apache-2.0

// When the memory of released tensors is freed or reused. Runs only on the stand-in.

#include <doctest/doctest.h>

#include <boost/asio/use_future.hpp>
#include <chrono>
#include <future>
#include <utility>
#include <vector>

#include "cuda/fresh_runtime.hpp"
#include "cuda/on_device.hpp"
#include "support/small_options.hpp"
#include "support/waiting.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

constexpr std::chrono::milliseconds a_while{50};

loader_options keeping(std::uint64_t bytes) {
  loader_options within = small_options();
  within.cached_bytes = bytes;
  return within;
}

// A consumer that uses tensors on a stream of device 0.
class consumer {
 public:
  consumer() {
    REQUIRE(cudaHostRegister(theirs_.data(), theirs_.size(), 0) == cudaSuccess);
    REQUIRE(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking) == cudaSuccess);
  }
  consumer(const consumer&) = delete;
  consumer& operator=(const consumer&) = delete;
  ~consumer() {
    fake_cudart::let_go();  // A test that fails may still hold the device.
    CHECK(cudaStreamSynchronize(stream_) == cudaSuccess);
    CHECK(cudaStreamDestroy(stream_) == cudaSuccess);
    CHECK(cudaHostUnregister(theirs_.data()) == cudaSuccess);
  }

  void use(const tensor& t) {
    CHECK(cudaMemcpyAsync(t.data(), theirs_.data(), std::min<std::size_t>(t.size_bytes(), bytes),
                          cudaMemcpyHostToDevice, stream_) == cudaSuccess);
  }
  // Work on the stream that ends when `until` has a value.
  void sleep(std::promise<void>& until) {
    const auto wait_for_value = [](void* value) {
      static_cast<std::promise<void>*>(value)->get_future().wait();
    };
    CHECK(cudaLaunchHostFunc(stream_, wait_for_value, &until) == cudaSuccess);
  }
  void wait() { CHECK(cudaStreamSynchronize(stream_) == cudaSuccess); }
  cudaStream_t stream() const noexcept { return stream_; }

 private:
  static constexpr std::size_t bytes = 100'000;

  std::vector<std::byte> theirs_ = std::vector<std::byte>(bytes, std::byte{0x55});
  cudaStream_t stream_ = nullptr;
};

// Work on the consumer's stream that ends at end(), or at the end of the test.
class unfinished_work {
 public:
  explicit unfinished_work(consumer& user) : user_(user) { user_.sleep(over_); }
  unfinished_work(const unfinished_work&) = delete;
  unfinished_work& operator=(const unfinished_work&) = delete;
  ~unfinished_work() { end(); }

  void end() {
    if (std::exchange(has_ended_, true)) return;
    over_.set_value();
    user_.wait();
  }

 private:
  consumer& user_;
  std::promise<void> over_;
  bool has_ended_ = false;
};

}  // namespace

TEST_CASE("cuda: memory that was released is the next load's, and goes back with the loader") {
  const fresh_runtime around;
  const made_file file(equal_tensors(20, 100'000));
  consumer other;
  loader with(cuda_device(0), keeping(8 << 20));
  for (int i = 0; i < 4; ++i) {
    const model loaded = get(with.load_async(file.name(), use_future));
    CHECK(first_difference_on_device(loaded) == "");
    CHECK(loaded.stats().memory_kept == (i > 0));
    release_after(loaded[0], other.stream());
    other.wait();
  }
  CHECK(fake_cudart::calls().at("cudaMalloc") == 1);
  CHECK(fake_cudart::calls().count("cudaFree") == 0);
}

TEST_CASE("cuda: memory of which nobody said when it is free is not given to another load") {
  const fresh_runtime around;
  const made_file file(equal_tensors(20, 100'000));
  loader with(cuda_device(1), keeping(8 << 20));
  for (int i = 0; i < 3; ++i) {
    const model loaded = get(with.load_async(file.name(), use_future));
    CHECK(first_difference_on_device(loaded) == "");
    CHECK_FALSE(loaded.stats().memory_kept);
  }
}

TEST_CASE("cuda: memory that other processes may map is not given to another load") {
  const fresh_runtime around;
  const made_file file(equal_tensors(20, 100'000));
  loader with(shared_cuda_device(1), keeping(8 << 20));
  for (int i = 0; i < 2; ++i) {
    const model loaded = get(with.load_async(file.name(), use_future));
    CHECK(first_difference_on_device(loaded) == "");
    CHECK_FALSE(loaded.stats().memory_kept);
    release(loaded[0]);
  }
}

TEST_CASE("cuda: memory that is kept is reused after the work of its release, and after no other") {
  const fresh_runtime around;
  const made_file file(equal_tensors(20, 100'000));
  consumer released;
  consumer busy;
  loader with(cuda_device(0), keeping(8 << 20));
  model loaded = get(with.load_async(file.name(), use_future));
  const model else_where = get(with.load_async(file.name(), use_future));
  unfinished_work endless(busy);
  busy.use(else_where.at("t5"));
  released.use(loaded.at("t3"));
  release_after(loaded.at("t3"), released.stream());
  loaded = {};
  released.wait();
  const model again = get(with.load_async(file.name(), use_future));
  CHECK(again.stats().memory_kept);
  CHECK(first_difference_on_device(again) == "");
  endless.end();
}

TEST_CASE("cuda: memory is not reused before the work of its release has ended") {
  const fresh_runtime around;
  const made_file file(equal_tensors(20, 100'000));
  consumer released;
  loader with(cuda_device(0), keeping(8 << 20));
  model loaded = get(with.load_async(file.name(), use_future));
  fake_cudart::hold();
  released.use(loaded.at("t3"));
  release_after(loaded.at("t3"), released.stream());
  loaded = {};
  pending_load load(with, file.name());
  CHECK(comes_true([] { return fake_cudart::calls().at("cudaMalloc") == 2; }));
  fake_cudart::let_go();
  CHECK_FALSE(load.failure().has_value());
  CHECK_FALSE(load.loaded().stats().memory_kept);
  CHECK(first_difference_on_device(load.loaded()) == "");
}

TEST_CASE("cuda: loads do not wait for kept memory that work of the program still uses") {
  const fresh_runtime around;
  const made_file file(equal_tensors(20, 100'000));
  consumer user;
  loader with(std::vector{cuda_device(0), host()}, keeping(32 << 20));
  unfinished_work endless(user);
  for (int i = 0; i < 4; ++i) {
    const model loaded = get(with.load_async(file.name(), use_future));
    CHECK_FALSE(loaded.stats().memory_kept);
    CHECK(first_difference_on_device(loaded) == "");
    release_after(loaded[0], user.stream());
  }
  load_options to_host;
  to_host.select = select().on("*", 1);
  CHECK(get(with.load_async(file.name(), to_host, use_future)).size() == 20);
  endless.end();
  CHECK(get(with.load_async(file.name(), use_future)).stats().memory_kept);
}

TEST_CASE("cuda: a load of a full device waits for kept memory that work of the program uses") {
  const fresh_runtime around;
  const made_file file(only("large", 40 << 20));
  consumer user;
  loader with(cuda_device(0), keeping(fake_cudart::memory_bytes));
  model loaded = get(with.load_async(file.name(), use_future));
  unfinished_work work(user);
  release_after(loaded[0], user.stream());
  loaded = {};
  pending_load load(with, file.name());
  CHECK_FALSE(load.completes_within(a_while));
  work.end();
  CHECK_FALSE(load.failure().has_value());
  CHECK(load.loaded().stats().memory_kept);
  CHECK(first_difference_on_device(load.loaded()) == "");
  CHECK(fake_cudart::calls().count("cudaFree") == 0);
}

TEST_CASE("cuda: a load of a full device fails if work of the program uses the kept memory") {
  const fresh_runtime around;
  const made_file file(only("large", 40 << 20));
  consumer user;
  loader with(cuda_device(0), keeping(fake_cudart::memory_bytes));
  unfinished_work endless(user);
  {
    const model loaded = get(with.load_async(file.name(), use_future));
    release_after(loaded[0], user.stream());
  }
  const auto begin = std::chrono::steady_clock::now();
  CHECK(code_of(with.load_async(file.name(), use_future)) == errc::memory_exceeded);
  CHECK(std::chrono::steady_clock::now() - begin < cuda::returned_memory_wait_max * 3 / 2);
  endless.end();
  CHECK(first_difference_on_device(get(with.load_async(file.name(), use_future))) == "");
}

TEST_CASE("cuda: memory goes back after the work of its release") {
  for (const bool wait_fails : {false, true}) {
    CAPTURE(wait_fails);
    const fresh_runtime around;
    const made_file file(equal_tensors(20, 100'000));
    consumer other;
    loader with(cuda_device(0), small_options());
    model loaded = get(with.load_async(file.name(), use_future));
    fake_cudart::hold();
    other.use(loaded.at("t3"));
    release_after(loaded.at("t3"), other.stream());
    // The wait is repeated.
    if (wait_fails) fake_cudart::fail("cudaEventSynchronize", 1, cudaErrorMemoryAllocation);
    loaded = {};
    const auto frees = [] {
      const auto all = fake_cudart::calls();
      return all.count("cudaFree") == 0 ? 0U : all.at("cudaFree");
    };
    const auto until = std::chrono::steady_clock::now() + a_while;
    while (std::chrono::steady_clock::now() < until) CHECK(frees() == 0);
    fake_cudart::let_go();
    // Waits until the memory is free.
    cuda::wait_for_returned_memory(patience);
    CHECK(frees() == 1);
  }
}

TEST_CASE("cuda: a release on the default stream waits for the streams that it waits for") {
  const fresh_runtime around;
  const made_file file(equal_tensors(5, 100'000));
  cudaStream_t blocking = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&blocking, 0) == cudaSuccess);
  std::vector<std::byte> theirs(100'000);
  REQUIRE(cudaHostRegister(theirs.data(), theirs.size(), 0) == cudaSuccess);
  {
    loader with(cuda_device(0), keeping(8 << 20));
    model loaded = get(with.load_async(file.name(), use_future));
    fake_cudart::hold();
    REQUIRE(cudaMemcpyAsync(loaded[1].data(), theirs.data(), theirs.size(), cudaMemcpyHostToDevice,
                            blocking) == cudaSuccess);
    release_after(loaded[1], nullptr);
    loaded = {};
    pending_load load(with, file.name());
    CHECK(comes_true([] { return fake_cudart::calls().at("cudaMalloc") == 2; }));
    fake_cudart::let_go();
    CHECK_FALSE(load.failure().has_value());
    CHECK_FALSE(load.loaded().stats().memory_kept);
    CHECK(first_difference_on_device(load.loaded()) == "");
  }
  CHECK(cudaStreamDestroy(blocking) == cudaSuccess);
  CHECK(cudaHostUnregister(theirs.data()) == cudaSuccess);
}

TEST_CASE("cuda: who lets go of the last tensor does not wait for the device") {
  const fresh_runtime around;
  const made_file file(equal_tensors(20, 100'000));
  consumer other;
  loader with(cuda_device(0), small_options());
  model first = get(with.load_async(file.name(), use_future));
  const model second = get(with.load_async(file.name(), use_future));
  fake_cudart::hold();
  other.use(second[0]);
  first = {};
  CHECK(fake_cudart::waiting_copies() == 1);
  fake_cudart::let_go();
  other.wait();
}

TEST_CASE("cuda: a load that finds too little waits for what is on its way back") {
  const fresh_runtime around;
  const made_file large(only("large", 40 << 20));
  const made_file plenty(only("small", 30 << 20));
  loader with(cuda_device(1), small_options());
  for (const made_file* file : {&large, &plenty, &large, &plenty}) {
    CHECK(first_difference_on_device(get(with.load_async(file->name(), use_future))) == "");
  }
}

TEST_CASE("cuda: memory that is kept makes room for what needs other memory") {
  const fresh_runtime around;
  const made_file large(only("large", 40 << 20));
  const made_file plenty(only("small", 30 << 20));
  consumer other;
  loader with(cuda_device(0), keeping(fake_cudart::memory_bytes));
  for (const made_file* file : {&large, &plenty, &large, &plenty}) {
    const model loaded = get(with.load_async(file->name(), use_future));
    CHECK(first_difference_on_device(loaded) == "");
    CHECK_FALSE(loaded.stats().memory_kept);
    release_after(loaded[0], other.stream());
    other.wait();
  }
  // Memory in use cannot be freed.
  const model first = get(with.load_async(plenty.name(), use_future));
  CHECK(first.stats().memory_kept);
  pending_load second(with, large.name());
  const auto failed = second.failure();
  CHECK((failed && failed->code() == errc::memory_exceeded));
}

TEST_CASE("cuda: kept memory whose release cannot be checked ends that load alone") {
  const fresh_runtime around;
  const made_file file(equal_tensors(20, 100'000));
  consumer other;
  loader with(cuda_device(0), keeping(8 << 20));
  {
    const model loaded = get(with.load_async(file.name(), use_future));
    release_after(loaded[0], other.stream());
  }
  fake_cudart::fail("cudaEventQuery", 1, cudaErrorIllegalAddress);
  pending_load load(with, file.name());
  const auto failed = load.failure();
  REQUIRE(failed.has_value());
  CHECK(failed->code().category() == cuda_category());
  CHECK(holds(failed->what(), "cudaErrorIllegalAddress"));
  const model loaded = get(with.load_async(file.name(), use_future));
  CHECK_FALSE(loaded.stats().memory_kept);
  CHECK(first_difference_on_device(loaded) == "");
}

TEST_CASE("cuda: a release that cannot be recorded says so") {
  const fresh_runtime around;
  const made_file file(only("a", 1000));
  loader with(cuda_device(1), small_options());
  const tensor t = get(with.load_async(file.name(), use_future)).at("a");
  fake_cudart::fail("cudaEventRecord", 1, cudaErrorInvalidValue);
  try {
    release_after(t, nullptr);
    FAIL("it was recorded");
  } catch (const error& e) {
    CHECK(e.code().category() == cuda_category());
    CHECK(holds(e.what(), "cuda:1: recording an event"));
  }
}

TEST_CASE("cuda: memory with a use that could not be recorded is not kept, unless it is released") {
  for (const char* const function : {"cudaEventCreateWithFlags", "cudaEventRecord"}) {
    const fresh_runtime around;
    const made_file file(equal_tensors(20, 100'000));
    consumer other;
    loader with(cuda_device(0), keeping(8 << 20));
    const auto load_again = [&] { return get(with.load_async(file.name(), use_future)); };
    for (const bool is_released : {false, true}) {
      model loaded = load_again();
      release_after(loaded[0], other.stream());
      fake_cudart::fail(function, 1, cudaErrorInvalidValue);
      CHECK_THROWS_AS(release_after(loaded[0], other.stream()), error);
      release_after(loaded[0], other.stream());
      if (is_released) release(loaded[0]);
      other.wait();
      loaded = {};
      CHECK(load_again().stats().memory_kept == is_released);
    }
  }
}

TEST_CASE("cuda: loads beside the capture of a graph, and does not invalidate it") {
  for (const auto mode : {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal}) {
    const fresh_runtime around;
    const made_file file(equal_tensors(5, 3 * small_slot));
    consumer other;
    loader with(cuda_device(0), keeping(fake_cudart::memory_bytes / 2));
    model before = get(with.load_async(file.name(), use_future));
    release_after(before[0], other.stream());
    other.wait();
    cudaStream_t captured = nullptr;
    REQUIRE(cudaStreamCreateWithFlags(&captured, 0) == cudaSuccess);
    REQUIRE(cudaStreamBeginCapture(captured, mode) == cudaSuccess);
    before = {};
    for (const dtype to : {dtype::u8, dtype::bf16}) {
      load_options how;
      if (to == dtype::bf16) how.dtype = to;
      const model loaded = get(with.load_async(file.name(), how, use_future));
      CHECK(loaded.stats().memory_kept == (to == dtype::u8));
      CHECK(first_difference_on_device(loaded) == "");
    }
    cuda::wait_for_returned_memory(patience);
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamEndCapture(captured, &graph) == cudaSuccess);
    CHECK(cudaGraphDestroy(graph) == cudaSuccess);
    CHECK(cudaStreamDestroy(captured) == cudaSuccess);
  }
}

TEST_CASE(
    "cuda: memory that work of the program keeps from being freed is missing, after a limit") {
  const fresh_runtime around;
  const made_file file(only("large", 40'000'000));
  loader with(cuda_device(0), small_options());
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  std::promise<void> over;
  const auto sleep = [](void* until) {
    static_cast<std::promise<void>*>(until)->get_future().wait();
  };
  model loaded = get(with.load_async(file.name(), use_future));
  REQUIRE(cudaLaunchHostFunc(stream, sleep, &over) == cudaSuccess);
  loaded = {};
  CHECK(code_of(with.load_async(file.name(), use_future)) == errc::memory_exceeded);
  over.set_value();
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(cudaStreamDestroy(stream) == cudaSuccess);
  CHECK(first_difference_on_device(get(with.load_async(file.name(), use_future))) == "");
}
