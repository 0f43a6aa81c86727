// SPDX-License-Identifier: Apache-2.0

// The kernels for deltas: a device changes its tensors itself. Only the values of a difference move
// over the bus. Runs only on the stand-in, which counts the bytes and fails on demand.

#include <doctest/doctest.h>

#include <boost/asio/use_future.hpp>
#include <cstddef>
#include <random>
#include <ringload/cuda.hpp>
#include <ringload/delta.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cuda/fresh_runtime.hpp"
#include "cuda/trained_versions.hpp"
#include "support/small_options.hpp"

using namespace ringload;
using namespace ringload::testing;
using namespace ringload::testing::delta_tests;

namespace {

// Two versions of one tensor, and the delta between them.
struct two_versions {
  two_versions(version_tensor first, unsigned permille) {
    std::mt19937_64 random(11);
    old_version["w"] = std::move(first);
    new_version = old_version;
    train(new_version["w"], permille, random);
    at.save("v0.safetensors", old_version);
    at.make("d.zt", at.path("v0.safetensors"), at.save("v1.safetensors", new_version));
  }

  model load(loader& gpu_loader) const {
    return gpu_loader.load_async(at.path("v0.safetensors"), future).get();
  }
  void update(loader& gpu_loader, const model& memory) const {
    update_async(gpu_loader, destinations_of(memory), at.path("d.zt"), future).get();
  }

  mutable place at;
  version old_version;
  version new_version;
};

version_tensor random_tensor(dtype type, std::uint64_t elements) {
  return {type, {elements}, noise(elements * bits(type) / 8, 5)};
}

// Returns the bytes that `work` copies between the host and the devices.
template <class Work>
fake_cudart::bytes_moved moved_by(const Work& work) {
  const fake_cudart::bytes_moved before = fake_cudart::moved();
  work();
  const fake_cudart::bytes_moved after = fake_cudart::moved();
  return {after.up - before.up, after.down - before.down, after.across - before.across};
}

}  // namespace

TEST_CASE("delta kernels: only the values of a sparse difference move to the device") {
  const two_versions versions(random_tensor(dtype::bf16, 1'000'003), 20);
  const fresh_runtime fresh;
  loader gpu_loader(cuda_device(1), small_options());
  const model memory = versions.load(gpu_loader);
  const auto moved = moved_by([&] { versions.update(gpu_loader, memory); });
  // 20,000 values of 2 bytes, each with a position of 2 bytes. The CRCs of 1,954 chunks.
  CHECK(moved.up < 90'000);
  CHECK(moved.down < 8'000);
  CHECK(version_on_device(memory) == versions.new_version);
}

TEST_CASE("delta kernels: a new version copies the base within the device") {
  const two_versions versions(random_tensor(dtype::f32, 300'000), 20);
  const fresh_runtime fresh;
  loader gpu_loader(cuda_device(1), small_options());
  const model base = versions.load(gpu_loader);
  model next;
  const auto moved = moved_by(
      [&] { next = apply_async(gpu_loader, base, versions.at.path("d.zt"), future).get(); });
  CHECK(moved.up < 50'000);
  CHECK(moved.down < 5'000);
  CHECK(version_on_device(next) == versions.new_version);
  CHECK(version_on_device(base) == versions.old_version);
}

TEST_CASE("delta kernels: a difference can be larger than the buffer on the device") {
  // A dense difference of 9.6 MB, where the buffer has 8 MiB, and one that is sparse.
  for (const unsigned permille : {900U, 150U}) {
    CAPTURE(permille);
    const two_versions versions(random_tensor(dtype::i64, 1'200'001), permille);
    const fresh_runtime fresh;
    loader gpu_loader(cuda_device(1), small_options());
    const model memory = versions.load(gpu_loader);
    versions.update(gpu_loader, memory);
    CHECK(version_on_device(memory) == versions.new_version);
    CHECK(code_of([&] { versions.update(gpu_loader, memory); }) == errc::wrong_digest);
    CHECK(version_on_device(memory) == versions.new_version);
  }
}

TEST_CASE("delta kernels: a tensor at any address is changed") {
  const std::uint64_t elements = 40'000;
  for (const dtype type : {dtype::u8, dtype::f16, dtype::f32, dtype::f64}) {
    const two_versions versions(random_tensor(type, elements), 300);
    const fresh_runtime fresh;
    loader gpu_loader(cuda_device(1), small_options());
    // The tensor begins at the second byte of another tensor.
    const std::string& bytes = versions.old_version.at("w").bytes;
    version around;
    around["around"] = {dtype::u8, {bytes.size() + 2}, "<" + bytes + ">"};
    const std::string file = versions.at.save("around.safetensors", around);
    const model memory = gpu_loader.load_async(file, future).get();
    std::vector<destination> into(1);
    into[0] =
        destination("w", static_cast<std::byte*>(const_cast<void*>(memory.at("around").data())) + 1,
                    type, {elements});
    into[0].device = memory.at("around").device();
    update_async(gpu_loader, into, versions.at.path("d.zt"), future).get();
    CHECK(bytes_on_device(memory.at("around")) == "<" + versions.new_version.at("w").bytes + ">");
  }
}

TEST_CASE("delta kernels: a failure in the middle of a change restores the old bytes") {
  const two_versions versions(random_tensor(dtype::i64, 1'200'001), 900);
  for (const char* function : {"cudaLaunchKernel", "cudaMemcpyAsync", "cudaEventSynchronize"}) {
    unsigned calls = 0;  // Of an update without a failure.
    for (unsigned nth = 0; nth <= calls; nth += 1 + nth / 2) {
      CAPTURE(function);
      CAPTURE(nth);
      const fresh_runtime fresh;
      loader gpu_loader(cuda_device(1), small_options());
      const model memory = versions.load(gpu_loader);
      const unsigned calls_before = fake_cudart::calls()[function];
      if (nth > 0) fake_cudart::fail(function, nth, cudaErrorInvalidValue);
      const auto failed = code_of([&] { versions.update(gpu_loader, memory); });
      if (nth == 0) calls = fake_cudart::calls()[function] - calls_before;
      CHECK(static_cast<bool>(failed) == (nth > 0));
      CHECK(version_on_device(memory) == (failed ? versions.old_version : versions.new_version));
    }
    CHECK(calls > 1);
  }
}

TEST_CASE("delta kernels: without memory for the buffer, the host changes the tensor") {
  const two_versions versions(random_tensor(dtype::bf16, 100'000), 20);
  const fresh_runtime fresh;
  loader gpu_loader(cuda_device(1), small_options());
  const model memory = versions.load(gpu_loader);
  fake_cudart::fail("cudaMalloc", 1, cudaErrorMemoryAllocation);
  versions.update(gpu_loader, memory);
  CHECK(version_on_device(memory) == versions.new_version);
}
