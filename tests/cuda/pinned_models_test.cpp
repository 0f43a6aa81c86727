// SPDX-License-Identifier: Apache-2.0

// Models in host memory that are registered with the driver once and copied to a device. Runs only
// on the stand-in.

#include <doctest/doctest.h>

#include <boost/asio/use_future.hpp>
#include <future>
#include <ringload/keeper.hpp>
#include <string>
#include <vector>

#include "cuda/fresh_runtime.hpp"
#include "cuda/on_device.hpp"
#include "support/small_options.hpp"
#include "support/temporary_folder.hpp"
#include "support/waiting.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

std::vector<made_tensor> tensors() {
  return {f32("a", 700'000), {"none", 0}, {"odd", 777}, f32("b", 3)};
}

model loaded_on(device where, const std::string& file) {
  loader by(where, small_options(2));
  return get(by.load_async(file, use_future));
}

// A keeper that serves a model of the host.
struct kept_on_host {
  made_file file;
  temporary_folder folder = temporary_folder::for_sockets();
  std::string socket = (folder.path() / "keeper").string();
  keeper keeps{socket};

  explicit kept_on_host(std::size_t header_spaces = 0) : file(tensors(), header_spaces) {
    keeps.publish("m", loaded_on(shared_host(), file.name()));
  }
};

// Copies all tensors to the device, and compares them there.
void check_copies(const model& source, loader& by) {
  for (const tensor& each : source) {
    const tensor copied = get(by.copy_async(each, cuda_device(1), use_future));
    const bool equal = bytes_on_device(copied) == bytes_of(each);
    CHECK(equal);
  }
}

unsigned registrations() {
  const auto calls = fake_cudart::calls();
  const auto found = calls.find("cudaHostRegister");
  return found == calls.end() ? 0 : found->second;
}

}  // namespace

TEST_CASE("pin: a device copies from pinned memory of a keeper, without a slot") {
  const fresh_runtime around;
  const kept_on_host kept;
  const model attached = attach(kept.socket, "m");
  CHECK(pin(attached, 1) >= attached.catalog().size_bytes());
  CHECK(registrations() == 1);
  loader by(cuda_device(1), small_options());
  for (int turn = 0; turn < 2; ++turn) check_copies(attached, by);
  CHECK(by.stats().pinned_bytes_peak == 0);
  CHECK(fake_cudart::moved().up == 2 * attached.catalog().size_bytes());
  // A second call does nothing.
  CHECK(pin(attached, 1) >= attached.catalog().size_bytes());
  const unsigned before = registrations();
  check_copies(attached, by);
  CHECK(registrations() == before);
}

TEST_CASE("pin: tensors are converted out of pinned memory too") {
  const fresh_runtime around;
  const kept_on_host kept;
  const model attached = attach(kept.socket, "m");
  pin(attached, 1);
  loader by(cuda_device(1), small_options());
  loader on_host(host(), small_options());
  const tensor there =
      get(by.copy_async(attached.at("a"), {cuda_device(1), dtype::bf16}, use_future));
  const tensor here = get(on_host.copy_async(attached.at("a"), {host(), dtype::bf16}, use_future));
  const bool equal = bytes_on_device(there) == bytes_of(here);
  CHECK(equal);
  CHECK(by.stats().pinned_bytes_peak == 0);
}

TEST_CASE("pin: attaching for a GPU again copies from the memory that this process has pinned") {
  const fresh_runtime around;
  const kept_on_host kept;
  const model attached = attach(kept.socket, "m");
  {
    const unsigned before = registrations();
    CHECK(first_difference_on_device(attach(kept.socket, "m", cuda_device(1))) == "");
    CHECK(registrations() > before);  // Registrations of slots.
  }
  pin(attached, 1);
  const unsigned before = registrations();
  const model on_device = attach(kept.socket, "m", cuda_device(1));
  CHECK(registrations() == before);
  CHECK(first_difference_on_device(on_device) == "");
}

TEST_CASE("pin: memory is unregistered before it is unmapped, in a thread of the library") {
  const fresh_runtime around;
  const kept_on_host kept;
  {
    model attached = attach(kept.socket, "m");
    pin(attached, 1);
    // Unregistering waits for the device, but the thread that destroys the model does not wait.
    fake_cudart::hold();
    attached = {};
    fake_cudart::let_go();
  }
  CHECK(left_over() == "");
}

TEST_CASE("pin: memory that the driver refuses is copied through slots as before") {
  const fresh_runtime around;
  const kept_on_host kept;
  const model attached = attach(kept.socket, "m");
  fake_cudart::fail("cudaHostRegister", 1, cudaErrorNotSupported);
  try {
    pin(attached, 1);
    FAIL("it was pinned");
  } catch (const error& e) {
    CHECK(e.code().category() == cuda_category());
    CHECK(e.code().value() == cudaErrorNotSupported);
  }
  loader by(cuda_device(1), small_options());
  check_copies(attached, by);
  CHECK(by.stats().pinned_bytes_peak > 0);
}

TEST_CASE("pin: memory that is kept for the next load stays registered") {
  const fresh_runtime around;
  const made_file file(tensors());
  loader_options keeping = small_options();
  keeping.cached_bytes = 64 << 20;
  loader on_host(host(), keeping);
  loader by(cuda_device(1), small_options());
  for (int turn = 0; turn < 3; ++turn) {
    const model loaded = get(on_host.load_async(file.name(), use_future));
    CHECK(loaded.stats().memory_kept == (turn > 0));
    const unsigned before = registrations();
    pin(loaded, 1);
    CHECK(registrations() - before == (turn == 0 ? 1 : 0));
    check_copies(loaded, by);
  }
  CHECK(by.stats().pinned_bytes_peak == 0);
}

TEST_CASE("pin: an integrated GPU uses the host's memory where it is, and makes no second copy") {
  const fresh_runtime around;
  fake_cudart::integrate();
  // The first tensor begins at a multiple of 256 bytes.
  const made_file measured(tensors());
  const std::uint64_t offset = read_catalog(measured.name()).tensors.front().offset;
  const kept_on_host kept((256 - offset % 256) % 256);
  const model host_model = attach(kept.socket, "m");
  {
    const model on_device = attach(kept.socket, "m", cuda_device(1));
    REQUIRE(on_device.size() == host_model.size());
    std::size_t shared_bytes = 0;
    for (const tensor& each : on_device) {
      CHECK(each.device() == cuda_device(1));
      const bool equal = bytes_on_device(each) == bytes_of(host_model.at(each.name()));
      CHECK(equal);
      if (each.read_only()) shared_bytes += each.size_bytes();
    }
    CHECK(shared_bytes >= 2'800'000);
    CHECK(fake_cudart::moved().up + shared_bytes == host_model.catalog().size_bytes());
  }
  CHECK(left_over() == "");
}
