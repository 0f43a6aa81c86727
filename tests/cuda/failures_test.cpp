// SPDX-License-Identifier: Apache-2.0

// Every call of the runtime that a load makes fails once. The load ends, with or without this
// error. No resource leaks, and the next load succeeds. Runs only on the stand-in.

#include <doctest/doctest.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <future>
#include <optional>
#include <ringload/keeper.hpp>
#include <string>

#include "cuda/failing_calls.hpp"
#include "cuda/fresh_runtime.hpp"
#include "cuda/on_device.hpp"
#include "cuda/trained_versions.hpp"
#include "support/converted.hpp"
#include "support/npz_text.hpp"
#include "support/small_options.hpp"
#include "support/temporary_folder.hpp"
#include "support/waiting.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

// Small tensors that are scattered, and large tensors.
std::vector<made_tensor> tensors() {
  std::vector<made_tensor> all = equal_tensors(100, 1000);
  all.push_back({"large", 200'000});
  all.push_back(f32("converted", 20'000));
  return all;
}

void fail_copies_from(unsigned first) {
  for (unsigned i = 0; i < 40; ++i) {
    fake_cudart::fail("cudaMemcpyAsync", first + i, cudaErrorInvalidValue);
  }
}

// Makes two loads with a new loader, one of them with a conversion. Returns an empty string if the
// bytes are correct, otherwise the error of the failed load.
std::string one_load(const std::string& path, boost::system::error_code& code) {
  try {
    loader with(cuda_device(1), small_options());
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
    // One failure affects only its own load.
    const model again = get(with.load_async(path, use_future));
    CHECK(first_difference_on_device(again) == "");
    return said;
  } catch (const error& e) {
    code = e.code();
    return e.what();
  }
}

// Copies tensors with separate allocations from a device, to it and within it. Returns an empty
// string if the bytes are correct, otherwise the error.
std::string copies_of_one_load(const std::string& path, boost::system::error_code& code) {
  try {
    loader with(cuda_device(1), small_options());
    load_options options;
    options.allocation = allocation::per_tensor;
    const auto copied = [&](const tensor& from, device to, std::optional<dtype> as) {
      return get(with.copy_async(from, {to, as}, use_future));
    };
    const model loaded = get(
        with.load_async(path, selecting(select().names({"t1", "converted"}), options), use_future));
    const tensor from = loaded.at("converted");
    const tensor here = copied(from, host(), {});
    const tensor there = copied(here, cuda_device(1), dtype::bf16);
    const tensor beside = copied(there, cuda_device(1), {});
    const bool same = bytes_on_device(beside) == bytes_on_device(there);
    CHECK(same);
    return "";
  } catch (const error& e) {
    code = e.code();
    return e.what();
  }
}

}  // namespace

TEST_CASE("cuda: each call that fails ends its copy, or the load before it, and nothing is left") {
  const made_file file(tensors());
  for_every_failing_call(
      [&](boost::system::error_code& code) { return copies_of_one_load(file.name(), code); });
}

TEST_CASE("cuda: each call that fails ends its load of decoded bytes, and nothing is left") {
  const npz_file file(
      {member("plain", npy_text("<i4", false, "400000,", compressible(1'600'000, 1)), true),
       member("converted", npy_text("<f4", false, "100000,", compressible(400'000, 2)), true),
       member("turned", npy_text("<i2", true, "300,500", compressible(300'000, 3)), true)});
  loader on_host(host(), small_options());
  const model same = get(on_host.load_async(file.name(), converting_to(dtype::bf16), use_future));
  for_every_failing_call([&](boost::system::error_code& code) -> std::string {
    try {
      loader with(cuda_device(1), small_options());
      std::string said;
      for (int turn = 0; turn < 2; ++turn) {
        const auto failed =
            failure_of(with.load_async(file.name(), converting_to(dtype::bf16), use_future));
        if (!failed) continue;
        CHECK(said == "");
        code = failed->code();
        said = failed->what();
      }
      const model loaded =
          get(with.load_async(file.name(), converting_to(dtype::bf16), use_future));
      for (const tensor& each : same) {
        const bool equal = bytes_on_device(loaded.at(each.name())) == bytes_of(each);
        CHECK(equal);
      }
      return said;
    } catch (const error& e) {
      code = e.code();
      return e.what();
    }
  });
}

TEST_CASE("cuda: each call that fails ends its load, and nothing else") {
  const made_file file(tensors());
  for_every_failing_call(
      [&](boost::system::error_code& code) { return one_load(file.name(), code); });
}

TEST_CASE("cuda: a context that breaks ends all loads with its error, now and later") {
  const made_file file(equal_tensors(20, 100'000));
  for (const unsigned nth : {1U, 2U, 5U, 30U}) {
    start_afresh();
    fake_cudart::break_at_copy(nth, cudaErrorECCUncorrectable);
    {
      loader with(cuda_device(1), small_options());
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
    CHECK(misuse() == "");
  }
  start_afresh();
}

TEST_CASE("cuda: where the device has no memory for staging, kernels read the slots") {
  const made_file file(tensors());
  for (const unsigned refused : {1U, 2U}) {
    const fresh_runtime around;
    // The first allocation is the arena.
    loader with(cuda_device(1), small_options());
    (void)get(with.load_async(made_file(only("a", 1000)).name(), use_future));
    for (unsigned i = 0; i < refused; ++i) {
      fake_cudart::fail("cudaMalloc", 2 + i, cudaErrorMemoryAllocation);
    }
    const model loaded = get(with.load_async(file.name(), use_future));
    CHECK(first_difference_on_device(loaded) == "");
  }
}

TEST_CASE("cuda: slots that cannot be pinned are copied from all the same") {
  const made_file file(tensors());
  const fresh_runtime around;
  fake_cudart::expect_pageable();
  fake_cudart::fail("cudaHostRegister", 1, cudaErrorNotSupported);
  loader with(cuda_device(1), small_options());
  const model loaded = get(with.load_async(file.name(), use_future));
  CHECK(first_difference_on_device(loaded) == "");
  CHECK(holds(loaded.stats().pinning_reason, "cudaErrorNotSupported"));
  CHECK(failure_of(with.load_async(file.name(), converting_to(dtype::bf16), use_future)) ==
        std::nullopt);
}

TEST_CASE("cuda: the staging buffer that one load could not have is allocated by the next") {
  const made_file file(tensors());
  const fresh_runtime around;
  fake_cudart::expect_pageable();
  // Kernels cannot read slots that are not pinned.
  fake_cudart::fail("cudaHostRegister", 1, cudaErrorNotSupported);
  loader with(cuda_device(1), small_options(1));
  (void)get(with.load_async(made_file(only("a", 1000)).name(), use_future));
  // The arena, the staging buffer, and the second try.
  fake_cudart::fail("cudaMalloc", 3, cudaErrorMemoryAllocation);
  fake_cudart::fail("cudaMalloc", 4, cudaErrorMemoryAllocation);
  const auto failed =
      failure_of(with.load_async(file.name(), converting_to(dtype::bf16), use_future));
  REQUIRE(failed.has_value());
  CHECK(failed->code().message().find("cudaErrorMemoryAllocation") != std::string::npos);
  for (int i = 0; i < 2; ++i) {
    CHECK(failure_of(with.load_async(file.name(), converting_to(dtype::bf16), use_future)) ==
          std::nullopt);
  }
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
           without{cudaErrorInsufficientDriver, 11080, "the driver supports CUDA 11.8, but CUDA 1"},
           without{cudaErrorNoDevice, 13000, "the driver reports no device"},
           without{cudaErrorIllegalAddress, 13000, "cudaErrorIllegalAddress: what CUDA says"},
       }) {
    start_afresh();
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
    CHECK(left_over() == "");
    CHECK(misuse() == "");
  }
  start_afresh();
}

TEST_CASE("cuda: a device that is not there is refused by its number") {
  start_afresh();
  for (const int index : {-1, 2, 1000}) {
    try {
      const loader with(cuda_device(index));
      FAIL("a loader was made");
    } catch (const error& e) {
      CHECK(e.code() == errc::device_unavailable);
      CHECK(holds(e.what(), "no CUDA device " + std::to_string(index) + ": there are 2"));
    }
  }
  CHECK(left_over() == "");
}

TEST_CASE("keeper: a model whose memory the driver does not give away is refused") {
  const fresh_runtime now;
  const made_file file(only("t", 100'000));
  const temporary_folder folder = temporary_folder::for_sockets();
  keeper keeps((folder.path() / "k").string());
  loader with(shared_cuda_device(1), small_options());
  pending_load one(with, file.name());
  REQUIRE_FALSE(one.failure().has_value());
  for (const char* const function : {"cuDeviceGetUuid", "cuMemExportToShareableHandle"}) {
    fake_cudart::fail(function, 1, cudaErrorNotSupported);
    try {
      keeps.publish("m", one.loaded());
      FAIL("it was published");
    } catch (const error& e) {
      CHECK(e.code() == boost::system::error_code(cudaErrorNotSupported, cuda_category()));
      CHECK(holds(e.what(), "model 'm': cuda:1: sharing memory with other processes"));
    }
    CHECK(keeps.models().empty());
  }
  keeps.publish("m", one.loaded());
  CHECK(keeps.models().size() == 1);
}

TEST_CASE("cuda: a device that has no image of the kernels makes the copies that need none") {
  for (const cudaError_t missing :
       {cudaErrorNoKernelImageForDevice, cudaErrorInvalidKernelImage, cudaErrorInvalidPtx,
        cudaErrorJitCompilerNotFound, cudaErrorUnsupportedPtxVersion,
        cudaErrorJitCompilationDisabled}) {
    CAPTURE(static_cast<int>(missing));
    const fresh_runtime around;
    fake_cudart::fail("cudaFuncGetAttributes", 1, missing);
    loader with(cuda_device(1), small_options());
    std::vector<made_tensor> unconverted = equal_tensors(100, 1000);
    unconverted.push_back({"large", 1'000'000});
    const made_file file(unconverted);
    CHECK(first_difference_on_device(get(with.load_async(file.name(), use_future))) == "");
    const made_file small({f32("a", 100)});
    const auto failed =
        failure_of(with.load_async(small.name(), converting_to(dtype::bf16), use_future));
    REQUIRE(failed.has_value());
    CHECK(failed->code() == boost::system::error_code(missing, cuda_category()));
    CHECK(holds(failed->what(), "the kernels of ringload are built for"));
  }
}

TEST_CASE(
    "cuda: shared memory that the driver refuses, at any of its calls, leaves nothing behind") {
  const fresh_runtime now;
  const made_file file(only("t", 100'000));
  for (const char* const function :
       {"cudaGetDriverEntryPointByVersion", "cuMemGetAllocationGranularity", "cuMemCreate",
        "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess"}) {
    CAPTURE(function);
    loader with(shared_cuda_device(1), small_options());
    fake_cudart::fail(function, 1, cudaErrorNotSupported);
    pending_load load(with, file.name());
    const auto failed = load.failure();
    REQUIRE(failed.has_value());
    CHECK(failed->code() == boost::system::error_code(cudaErrorNotSupported, cuda_category()));
    CHECK(first_difference_on_device(get(with.load_async(file.name(), use_future))) == "");
  }
}

TEST_CASE("cuda: shared memory that the device does not have is refused, as private memory is") {
  const fresh_runtime now;
  const made_file file(only("t", 100'000));
  loader with(shared_cuda_device(1), small_options());
  for (const unsigned nth : {1U, 2U}) {
    fake_cudart::fail("cuMemCreate", nth, cudaErrorMemoryAllocation);
  }
  pending_load load(with, file.name());
  const auto failed = load.failure();
  REQUIRE(failed.has_value());
  CHECK(failed->code() == errc::memory_exceeded);
}

TEST_CASE("cuda: the end of a loader cancels a delta, and waits for its copies on the device") {
  using namespace ringload::testing::delta_tests;
  constexpr std::chrono::milliseconds a_while{50};
  const trained_versions trained;
  start_afresh();
  fake_cudart::expect_pageable();
  {
    std::optional<loader> gpu_loader(std::in_place, cuda_device(1), small_options());
    const model base = gpu_loader->load_async(trained.at.path("v/v0.safetensors"), future).get();
    fake_cudart::hold();
    auto changed = apply_async(*gpu_loader, base, trained.delta(1), future);
    wait_for_copies(1);
    auto ended = std::async(std::launch::async, [&gpu_loader] { gpu_loader.reset(); });
    CHECK(ended.wait_for(a_while) == std::future_status::timeout);
    fake_cudart::let_go();
    CHECK(code_of([&] { changed.get(); }) == asio::error::operation_aborted);
    ended.get();
    CHECK(version_on_device(base) == trained.versions[0]);
  }
  start_afresh();
}

TEST_CASE("cuda: if a call fails during an update in place, GPU memory has the old version") {
  using namespace ringload::testing::delta_tests;
  const trained_versions trained;
  start_afresh();
  fake_cudart::expect_pageable();
  for (const std::string function : {"cudaMemcpyAsync", "cudaEventSynchronize"}) {
    unsigned failures = 0;
    for (bool has_failed = true; has_failed; failures += has_failed ? 1 : 0) {
      REQUIRE(failures < 1000);
      CAPTURE(function);
      CAPTURE(failures);
      start_afresh();
      fake_cudart::expect_pageable();
      loader gpu_loader(cuda_device(1), small_options());
      const model memory = gpu_loader.load_async(trained.at.path("v/v0.safetensors"), future).get();
      fake_cudart::fail(function, failures + 1, cudaErrorInvalidValue);
      const auto failure = code_of([&] {
        update_async(gpu_loader, destinations_of(memory), trained.delta(1), future).get();
      });
      has_failed = static_cast<bool>(failure);
      if (has_failed) CHECK(version_on_device(memory) == trained.versions[0]);
    }
    CHECK(failures > 3);
  }
  start_afresh();
}

TEST_CASE("cuda: an update whose old bytes cannot be restored says so") {
  using namespace ringload::testing::delta_tests;
  const trained_versions trained;
  // Returns true if the update reports mixed versions. `plan_failures` chooses the calls that fail.
  const auto reports_mixed_versions = [&trained](const auto& plan_failures) {
    start_afresh();
    fake_cudart::expect_pageable();
    loader gpu_loader(cuda_device(1), small_options());
    const model memory = gpu_loader.load_async(trained.at.path("v/v0.safetensors"), future).get();
    plan_failures();
    const auto failure = code_of(
        [&] { update_async(gpu_loader, destinations_of(memory), trained.delta(1), future).get(); });
    fake_cudart::forget_failures();
    if (failure == errc::not_restored) return true;
    CHECK(version_on_device(memory) == trained.versions[failure ? 0 : 1]);
    return false;
  };
  // A copy of the update fails, and then each copy of the restoration.
  unsigned reports = 0;
  for (unsigned copy = 1; copy < 60; ++copy) {
    CAPTURE(copy);
    if (reports_mixed_versions([&] { fail_copies_from(copy); })) ++reports;
  }
  CHECK(reports > 3);

  // Without memory for the kernels, the host changes the elements. A copy finishes on the device,
  // but the wait for this copy fails. All later copies fail too.
  reports = 0;
  for (unsigned wait = 1; wait < 9; ++wait) {
    for (unsigned copy = wait; copy < wait + 3; ++copy) {
      CAPTURE(wait);
      CAPTURE(copy);
      const bool is_reported = reports_mixed_versions([&] {
        for (unsigned i = 1; i < 20; ++i) {
          fake_cudart::fail("cudaMalloc", i, cudaErrorMemoryAllocation);
        }
        fake_cudart::fail("cudaEventSynchronize", wait, cudaErrorInvalidValue);
        fail_copies_from(copy);
      });
      if (is_reported) ++reports;
    }
  }
  CHECK(reports > 3);
  start_afresh();
}

TEST_CASE("cuda: a cancelled update whose old bytes cannot be restored says so") {
  using namespace ringload::testing::delta_tests;
  const trained_versions trained;
  start_afresh();
  fake_cudart::expect_pageable();
  {
    loader gpu_loader(cuda_device(1), small_options());
    const model memory = gpu_loader.load_async(trained.at.path("v/v0.safetensors"), future).get();
    asio::cancellation_signal stop;
    apply_options options;
    options.check_unchanged = false;  // So the first kernel changes a tensor.
    const unsigned kernels = fake_cudart::calls()["cudaLaunchKernel"];
    fake_cudart::hold_kernels();
    auto updated = update_async(gpu_loader, destinations_of(memory), trained.delta(1), options,
                                asio::bind_cancellation_slot(stop.slot(), future));
    while (fake_cudart::calls()["cudaLaunchKernel"] == kernels) std::this_thread::yield();
    stop.emit(asio::cancellation_type::terminal);
    fail_copies_from(1);
    fake_cudart::let_go();
    CHECK(code_of([&] { updated.get(); }) == errc::not_restored);
    fake_cudart::forget_failures();
  }
  start_afresh();
}
