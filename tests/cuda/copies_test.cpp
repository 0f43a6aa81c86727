// SPDX-License-Identifier: Apache-2.0

// A separate allocation for each tensor, and copies from, to and within a device. Runs on the
// stand-in, and on a GPU if the machine has one.

#include <doctest/doctest.h>

#include <boost/asio/use_future.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cuda/on_device.hpp"
#include "support/converted.hpp"
#include "support/settled.hpp"
#include "support/skip.hpp"
#include "support/small_options.hpp"
#include "support/waiting.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

bool device_is_there() {
  std::string why;
  if (cuda_device_count(&why) > 0) return true;
  skip("no CUDA device: " + why);
  return false;
}

std::vector<made_tensor> tensors_of_some_sizes() {
  return {f32("many", 200'001), {"odd", 77}, f32("one", 1), {"none", 0}, {"two", 2 * small_slot}};
}

}  // namespace

TEST_CASE("cuda: each tensor, or each file, may have memory of its own") {
  if (!device_is_there()) return;
  const made_file file(tensors_of_some_sizes(), 1);
  for (const allocation how : {allocation::per_file, allocation::per_tensor}) {
    loader with(last_cuda_device(), small_options());
    load_options options;
    options.allocation = how;
    std::optional<model> loaded = get(with.load_async(file.name(), options, use_future));
    CHECK(first_difference_on_device(*loaded) == "");
    CHECK(loaded->regions().size() == (how == allocation::per_file ? 1 : 5));
    const tensor kept = loaded->at("odd");
    loaded.reset();
    CHECK(settled_memory(with, file.name()).tensor_allocations == 1);
    if (how == allocation::per_tensor) CHECK(settled_memory(with, file.name()).tensor_bytes < 4096);
    CHECK(bytes_on_device(kept).size() == 77);
  }
}

TEST_CASE("cuda: a tensor_alignment that cudaMalloc does not guarantee is refused") {
  if (!device_is_there()) return;
  const made_file file(equal_tensors(40, 1000));
  loader with(last_cuda_device(), small_options());
  load_options options;
  for (const allocation how : {allocation::per_tensor, allocation::per_load}) {
    options.allocation = how;
    options.tensor_alignment = 256;
    const model loaded = get(with.load_async(file.name(), options, use_future));
    CHECK(first_difference_on_device(loaded) == "");
    for (const tensor& each : loaded)
      CHECK(reinterpret_cast<std::uintptr_t>(each.data()) % 256 == 0);
    options.tensor_alignment = 512;
    CHECK(code_of(with.load_async(file.name(), options, use_future)) == errc::invalid_options);
  }
}

TEST_CASE("cuda: many pieces of memory that are let go at once come back") {
  if (!device_is_there()) return;
  const made_file file(equal_tensors(300, 1000));
  loader with(last_cuda_device(), small_options());
  load_options options;
  options.allocation = allocation::per_tensor;
  for (int turn = 0; turn < 3; ++turn) {
    const model loaded = get(with.load_async(file.name(), options, use_future));
    CHECK(loaded.regions().size() == 300);
    CHECK(first_difference_on_device(loaded) == "");
  }
  CHECK(settled_memory(with, file.name()).tensor_allocations == 0);
}

TEST_CASE("cuda: tensors are copied to the host, to the device and within it") {
  if (!device_is_there()) return;
  const made_file file(tensors_of_some_sizes(), 3);
  const device gpu = last_cuda_device();
  loader with(gpu, small_options());
  const model loaded = get(with.load_async(file.name(), use_future));
  for (const tensor& t : loaded) {
    const std::string wanted = bytes_on_device(t);
    const tensor here = get(with.copy_async(t, host(), use_future));
    CHECK(here.device() == host());
    CHECK((testing::bytes_of(here) == wanted));
    const tensor there = get(with.copy_async(here, gpu, use_future));
    CHECK(there.device() == gpu);
    CHECK((bytes_on_device(there) == wanted));
    const tensor beside = get(with.copy_async(t, use_future));
    CHECK(beside.device() == gpu);
    if (t.size_bytes() > 0) CHECK(beside.data() != t.data());
    CHECK((bytes_on_device(beside) == wanted));
    CHECK((testing::bytes_of(get(with.copy_async(here, host(), use_future))) == wanted));
  }
  CHECK(settled_memory(with, file.name()).tensor_allocations == 1);
}

TEST_CASE("cuda: copies are converted, by the CPU on the host and by kernels on the device") {
  if (!device_is_there()) return;
  const made_file file(tensors_of_some_sizes());
  const device gpu = last_cuda_device();
  loader with(gpu, small_options());
  const tensor many = get(with.load_async(file.name(), use_future)).at("many");
  const std::string wanted = reference_bytes(bytes_on_device(many), dtype::f32, dtype::bf16);
  const tensor here = get(with.copy_async(many, {host(), dtype::bf16}, use_future));
  CHECK((testing::bytes_of(here) == wanted));
  CHECK((bytes_on_device(get(with.copy_async(many, {gpu, dtype::bf16}, use_future))) == wanted));
  // The CPU converts more pairs of types than the kernels.
  CHECK(get(with.copy_async(many, {host(), dtype::f64}, use_future)).dtype() == dtype::f64);
  CHECK(code_of(with.copy_async(many, {gpu, dtype::f64}, use_future)) == errc::unsupported_dtype);
}

TEST_CASE("cuda: files are mapped for the host only; for a device tensors are loaded, if allowed") {
  if (!device_is_there()) return;
  const made_file file(tensors_of_some_sizes());
  loader with(last_cuda_device(), small_options());
  load_options options;
  options.memory = tensor_memory::mapped;
  const auto refused = failure_of(with.load_async(file.name(), options, use_future));
  REQUIRE(refused);
  CHECK(refused->code() == errc::device_unavailable);
  CHECK(holds(refused->what(), "load_options::memory"));
  options.unmappable = on_unmappable::copy;
  const model loaded = get(with.load_async(file.name(), options, use_future));
  CHECK(first_difference_on_device(loaded) == "");
  CHECK(settled_memory(with, file.name()).mappings == 0);
}
