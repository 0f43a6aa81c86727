// SPDX-License-Identifier: Apache-2.0

// The lifetime of device resources. Runs only on the stand-in.

#include <doctest/doctest.h>

#include <algorithm>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <optional>
#include <ringload/allocation_log.hpp>
#include <ringload/dlpack.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "cuda/fresh_runtime.hpp"
#include "cuda/logged_calls.hpp"
#include "cuda/on_device.hpp"
#include "support/converted.hpp"
#include "support/npz_text.hpp"
#include "support/small_options.hpp"
#include "support/temporary_folder.hpp"
#include "support/waiting.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

bool has_thread(const std::string& name) {
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name_of_thread;
    std::ifstream(thread.path() / "comm") >> name_of_thread;
    if (name_of_thread == name) return true;
  }
  return false;
}

// A stream with a host function of the program that returns only when the test ends it.
class sleeping_stream {
 public:
  sleeping_stream() {
    REQUIRE(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking) == cudaSuccess);
  }
  sleeping_stream(const sleeping_stream&) = delete;
  sleeping_stream& operator=(const sleeping_stream&) = delete;
  ~sleeping_stream() {
    over_.set_value();
    CHECK(cudaStreamSynchronize(stream_) == cudaSuccess);
    CHECK(cudaStreamDestroy(stream_) == cudaSuccess);
  }

  void fall_asleep() {
    const auto sleep = [](void* until) {
      static_cast<std::promise<void>*>(until)->get_future().wait();
    };
    REQUIRE(cudaLaunchHostFunc(stream_, sleep, &over_) == cudaSuccess);
  }

 private:
  cudaStream_t stream_ = nullptr;
  std::promise<void> over_;
};

// Returns true if all threads of the process with one of these names end. A thread that begins
// while another one ends can be missed by one look at the list of threads, but not by the next one.
bool threads_end(const std::vector<std::string>& names) {
  const auto until = std::chrono::steady_clock::now() + patience;
  for (int looks = 0; looks < 2; ++looks) {
    while (std::ranges::any_of(names, has_thread)) {
      if (std::chrono::steady_clock::now() > until) return false;
      looks = 0;
      std::this_thread::yield();
    }
  }
  return true;
}

}  // namespace

TEST_CASE("cuda: the allocation log has all memory of the device, and the release of all of it") {
  const fresh_runtime around;
  const made_file file({f32("a", 20'000), {"b", 777}, {"c", 300'000}});
  std::ostringstream text;
  for (const allocation how : {allocation::per_load, allocation::per_tensor}) {
    loader with(cuda_device(1), small_options(), {}, allocation_log(text));
    load_options options;
    options.allocation = how;
    options.dtype = dtype::bf16;  // So that kernels convert.
    get(with.load_async(file.name(), options, use_future));
  }
  CHECK(left_over() == "");
  const logged_calls taken(text.str(), "cudaMalloc");
  const logged_calls released(text.str(), "cudaFree");
  CHECK(taken.count == fake_cudart::calls()["cudaMalloc"]);
  CHECK(taken.bytes >= 2 * (40'000 + 777 + 300'000));
  CHECK(released.count == taken.count);
  CHECK(released.bytes == taken.bytes);
}

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

  // The current device of this thread is still device 0.
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
  // The destructor of a loader does not wait for the engine thread. A thread that frees memory of
  // the device sets the device too. It is first named like the engine thread, which begins it.
  REQUIRE(threads_end({"ringload", "ringload-free"}));
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

  // The free memory is fragmented, even after all pending releases.
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

TEST_CASE("cuda: the page cache does not count as used memory of an integrated GPU") {
  const fresh_runtime around;
  fake_cudart::integrate();
  loader with(cuda_device(1), small_options());
  const made_file file(equal_tensors(5, 10'000));
  CHECK(first_difference_on_device(get(with.load_async(file.name(), use_future))) == "");
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
  // The load still waits after several checks of the clock.
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
  const made_file file(equal_tensors(20, 100'000));
  // A card may wait for the function when memory is freed, so the loader ends after it.
  loader with(cuda_device(0), small_options());
  sleeping_stream program;
  program.fall_asleep();
  model loaded = get(with.load_async(file.name(), use_future));
  CHECK(first_difference_on_device(loaded) == "");
}

TEST_CASE("cuda: the end of a loader waits for no work of the program") {
  const fresh_runtime around;
  const made_file file({f32("a", 1000), {"b", 100'000}});
  const npz_file compressed(
      {member("m", npy_text("<f4", false, "100000,", compressible(400'000, 1)), true)});
  {
    sleeping_stream program;
    {
      loader with(cuda_device(0), small_options());
      model loaded = get(with.load_async(file.name(), converting_to(dtype::bf16), use_future));
      CHECK(bytes_on_device(loaded.at("a")).size() == 2000);
      loaded = get(with.load_async(compressed.name(), use_future));
      program.fall_asleep();
    }
    // An engine thread that unregistered its slots would wait for the function.
    CHECK(threads_end({"ringload"}));
    CHECK(fake_cudart::left_over() != "");
  }
  CHECK(left_over() == "");
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

TEST_CASE("cuda: a kernel that cannot begin holds up no load that needs none") {
  const fresh_runtime around;
  loader with(cuda_device(1), small_options());
  const made_file converted({f32("a", 100)});
  const made_file large(only("large", 1'000'000));
  fake_cudart::hold_kernels();
  load_options to_bf16;
  to_bf16.dtype = dtype::bf16;
  std::future<model> first = with.load_async(converted.name(), to_bf16, use_future);
  wait_for_copies(1);
  const model second = get(with.load_async(large.name(), use_future));
  CHECK(first_difference_on_device(second) == "");
  CHECK(fake_cudart::waiting_copies() > 0);
  fake_cudart::let_go();
  CHECK(get(std::move(first)).size() == 1);
}

TEST_CASE("cuda: decoded bytes that wait for a kernel hold up no other load") {
  const fresh_runtime around;
  loader with(cuda_device(1), small_options());
  const npz_file compressed(
      {member("m", npy_text("<f4", false, "20000,", compressible(80'000, 1)), true)});
  const made_file large(only("large", 1'000'000));
  fake_cudart::hold_kernels();
  load_options to_bf16;
  to_bf16.dtype = dtype::bf16;
  std::future<model> first = with.load_async(compressed.name(), to_bf16, use_future);
  wait_for_copies(1);
  const model second = get(with.load_async(large.name(), use_future));
  CHECK(first_difference_on_device(second) == "");
  CHECK(fake_cudart::waiting_copies() > 0);
  fake_cudart::let_go();
  const model converted = get(std::move(first));
  loader on_host(host(), small_options());
  const model same = get(on_host.load_async(compressed.name(), to_bf16, use_future));
  CHECK(bytes_on_device(converted.at("m")) == std::string(bytes_of(same.at("m"))));
}

TEST_CASE("cuda: larger slots need no memory of the device that smaller slots did not need") {
  const fresh_runtime around;
  // Freeing memory in the engine thread could wait for the program's kernels.
  loader_options within = small_options();
  within.slot_bytes = 2 << 20;
  loader with(cuda_device(1), within);
  const made_file small({f32("a", 100)});
  const made_file large({f32("a", 500'000)});
  load_options to_bf16;
  to_bf16.dtype = dtype::bf16;
  const model first = get(with.load_async(small.name(), to_bf16, use_future));
  const model second = get(with.load_async(large.name(), to_bf16, use_future));
  CHECK(fake_cudart::calls().count("cudaFree") == 0);
}

TEST_CASE("cuda: a save copies from the device into its pinned slot, without a copy on the host") {
  const fresh_runtime around;
  loader_options within = small_options();
  within.slot_bytes = 4 << 20;
  loader by(cuda_device(1), within);
  const made_file file(only("large", 3 << 20));
  const temporary_folder folder;
  const model loaded = get(by.load_async(file.name(), use_future));
  const unsigned before = fake_cudart::calls().at("cudaMemcpyAsync");
  get(by.save_async((folder.path() / "saved.safetensors").string(), refs_of(loaded), {},
                    use_future));
  // The last bytes of the file are a separate write, because they are not a whole I/O unit.
  CHECK(fake_cudart::calls().at("cudaMemcpyAsync") == before + 2);
}
