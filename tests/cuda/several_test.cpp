// SPDX-License-Identifier: Apache-2.0

// One load to two devices of the stand-in.

#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/use_future.hpp>
#include <ringload/allocation_log.hpp>
#include <sstream>
#include <string>
#include <thread>

#include "cuda/failing_calls.hpp"
#include "cuda/fresh_runtime.hpp"
#include "cuda/logged_calls.hpp"
#include "cuda/on_device.hpp"
#include "support/converted.hpp"
#include "support/small_options.hpp"
#include "support/waiting.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

std::vector<device> both() { return {cuda_device(0), cuda_device(1)}; }

// Small tensors that are scattered, large tensors, and one tensor to shard.
std::vector<made_tensor> tensors() {
  std::vector<made_tensor> all = equal_tensors(60, 1000);
  all.push_back({"large", 300'001});
  all.push_back(f32("split", 30'001));
  return all;
}

// Before the first copy from one device to another, a loader tests their connection.
constexpr std::size_t tested_bytes = 65'536;

selection everywhere() { return select().replicate("*").shard("split", 0); }

// Returns an empty string if the tensors on both devices are correct.
std::string wrong_in(const model& loaded) {
  std::string split;
  for (std::size_t i = 0; i < loaded.size(); ++i) {
    const tensor t = loaded[i];
    if (t.name() == "split") {
      split += bytes_on_device(t);
      continue;
    }
    const tensor_info& info = loaded.catalog().tensors[i];
    std::string wrong = difference_on_device(t, info, loaded.catalog());
    if (!wrong.empty()) return wrong + " on " + t.device().name();
  }
  const catalog& all = loaded.catalog();
  const tensor_info& last = all.tensors.back();
  const bool whole = split == file_bytes(all.files[last.file].path, last.offset, 120'004);
  if (!whole) return "split: other bytes";
  return loaded.size() == 124 ? "" : std::to_string(loaded.size()) + " tensors";
}

// Makes two loads with a new loader, one of them with a conversion. Returns an empty string if the
// bytes are correct, otherwise the error of the failed load.
std::string one_load(const std::string& path, boost::system::error_code& code) {
  std::string said;
  const auto note = [&](const error& e) {
    CHECK(said == "");
    code = e.code();
    said = e.what();
  };
  try {
    loader with(both(), small_options());
    try {
      const model loaded = get(with.load_async(path, everywhere(), use_future));
      const std::string wrong = wrong_in(loaded);
      CHECK(wrong == "");
    } catch (const error& e) {
      note(e);
    }
    const auto failed = failure_of(
        with.load_async(path, selecting(everywhere(), converting_to(dtype::bf16)), use_future));
    if (failed) note(*failed);
    // One failure affects only its own load.
    const model again = get(with.load_async(path, everywhere(), use_future));
    const std::string wrong = wrong_in(again);
    CHECK(wrong == "");
  } catch (const error& e) {
    code = e.code();
    return e.what();
  }
  return said;
}

}  // namespace

TEST_CASE("cuda: one load to two devices reads each byte once, and is right on both") {
  const fresh_runtime around;
  const made_file file(tensors());
  load_stats alone;
  {
    loader one(cuda_device(1), small_options());
    alone = get(one.load_async(file.name(), use_future)).stats();
  }
  loader with(both(), small_options());
  for (const read_route route : {read_route::buffered, read_route::automatic}) {
    const model loaded =
        get(with.load_async(file.name(), selecting(everywhere(), by(route)), use_future));
    CHECK(wrong_in(loaded) == "");
    const load_stats& s = loaded.stats();
    CHECK(s.bytes_direct + s.bytes_buffered == alone.bytes_direct + alone.bytes_buffered);
    CHECK(loaded.at("large", 0).device() == cuda_device(0));
    CHECK(loaded.at("large", 1).device() == cuda_device(1));
    CHECK(loaded.at("split", 1).shape().front() == 15'000);
    CHECK(loaded.regions().size() == 2);
  }
  CHECK(fake_cudart::contexts() == std::set<int>{0, 1});
}

TEST_CASE("cuda: what two devices need goes up once, where they reach each other's memory") {
  constexpr std::size_t bytes = 1'000'001;
  const made_file file(only("large", bytes));
  for (const bool connected : {true, false}) {
    CAPTURE(connected);
    const fresh_runtime around;
    if (!connected) fake_cudart::not_connected();
    for (const auto& devices : {both(), std::vector{host(), cuda_device(1), cuda_device(0)}}) {
      const auto before = fake_cudart::moved();
      loader with(devices, small_options());
      const model loaded = get(with.load_async(file.name(), select().replicate("*"), use_future));
      const auto after = fake_cudart::moved();
      CHECK(after.up - before.up == (connected ? bytes + tested_bytes : 2 * bytes));
      CHECK(after.across - before.across == (connected ? bytes + tested_bytes : 0));
      const std::string first = bytes_on_device(loaded.at("large", devices.size() == 2 ? 0 : 1));
      CHECK(first == file_bytes(file.path(), loaded.catalog().tensors.front().offset, bytes));
      CHECK((bytes_on_device(loaded.at("large", devices.size() == 2 ? 1 : 2)) == first));
    }
  }
}

TEST_CASE("cuda: two devices are connected by the first load that replicates large tensors") {
  const fresh_runtime around;
  const made_file file(only("large", 1'000'000));
  loader with(both(), small_options());
  const model sharded = get(with.load_async(file.name(), select().shard("*", 0), use_future));
  CHECK(fake_cudart::calls().count("cudaDeviceEnablePeerAccess") == 0);
  for (int i = 0; i < 2; ++i) {
    const model loaded = get(with.load_async(file.name(), select().replicate("*"), use_future));
    CHECK(fake_cudart::calls().at("cudaDeviceEnablePeerAccess") == 1);
  }
}

TEST_CASE("cuda: the allocation log has the memory of the test of a connection") {
  const fresh_runtime around;
  const made_file file(only("large", 1'000'000));
  std::ostringstream text;
  {
    loader with(both(), small_options(), {}, allocation_log(text));
    get(with.load_async(file.name(), select().replicate("*"), use_future));
  }
  CHECK(left_over() == "");
  const logged_calls taken(text.str(), "cudaMalloc");
  CHECK(taken.count == fake_cudart::calls()["cudaMalloc"]);
  CHECK(logged_calls(text.str(), "cudaFree").count == taken.count);
}

TEST_CASE("cuda: without copies between devices, each device gets its bytes from the host") {
  constexpr std::size_t bytes = 1'000'001;
  const made_file file(only("large", bytes));
  const fresh_runtime around;
  loader_options options = small_options();
  options.peer_copies = false;
  loader with(both(), options);
  const model loaded = get(with.load_async(file.name(), select().replicate("*"), use_future));
  CHECK((bytes_on_device(loaded.at("large", 1)) == bytes_on_device(loaded.at("large", 0))));
  CHECK(fake_cudart::moved().up == 2 * bytes);
  CHECK(fake_cudart::calls().count("cudaDeviceCanAccessPeer") == 0);
}

TEST_CASE("cuda: small tensors and converted ones go up to each device") {
  const fresh_runtime around;
  const made_file small(equal_tensors(60, 1000));
  const made_file large(std::vector<made_tensor>{f32("a", 70'001)});
  loader with(both(), small_options());
  const selection all = select().replicate("*");
  (void)get(with.load_async(small.name(), all, use_future));
  (void)get(with.load_async(large.name(), selecting(all, converting_to(dtype::bf16)), use_future));
  CHECK(fake_cudart::moved().across == 0);
}

TEST_CASE("cuda: a slot is pinned once for two devices, and let go of by both") {
  const fresh_runtime around;
  const made_file file(tensors());
  loader with(both(), small_options(3));
  (void)get(with.load_async(file.name(), selecting(everywhere(), converting_to(dtype::bf16)),
                            use_future));
  CHECK(fake_cudart::pinned_memory().size() == 3);
  CHECK(with.stats().pinned_bytes_peak == 3 * small_slot);
  CHECK(with.stats().pinning_reason == "");
}

TEST_CASE("cuda: the host and two devices, and one of them twice, in one load") {
  const fresh_runtime around;
  const made_file file(tensors());
  loader with(std::vector{host(), cuda_device(1), cuda_device(0), cuda_device(1)}, small_options());
  const model loaded = get(with.load_async(
      file.name(), selecting(select().replicate("*"), converting_to(dtype::f16)), use_future));
  const std::string on_host(bytes_of(loaded.at("split", 0)));
  const std::string large(bytes_of(loaded.at("large", 0)));
  for (const std::uint32_t d : {1U, 2U, 3U}) {
    CHECK(loaded.at("split", d).device().index() == (d == 2 ? 0 : 1));
    CHECK((bytes_on_device(loaded.at("split", d)) == on_host));
    CHECK((bytes_on_device(loaded.at("large", d)) == large));
  }
  CHECK(loaded.at("large", 1).data() != loaded.at("large", 3).data());
}

TEST_CASE("cuda: digests are compared on each device, and copies go from one to the other") {
  const fresh_runtime around;
  const made_file file(tensors());
  loader with(both(), small_options());
  const model loaded = get(with.load_async(file.name(), select().on("large", 1), use_future));
  const tensor large = loaded.at("large");
  CHECK(large.device() == cuda_device(1));
  const tensor moved = get(with.copy_async(large, cuda_device(0), use_future));
  CHECK(moved.device() == cuda_device(0));
  CHECK((bytes_on_device(moved) == bytes_on_device(large)));
}

TEST_CASE("cuda: each call that fails ends a load to two devices, and nothing else") {
  const made_file file(tensors());
  for_every_failing_call(
      [&](boost::system::error_code& code) { return one_load(file.name(), code); });
}

TEST_CASE("cuda: where one device has no room, the other keeps none either") {
  const fresh_runtime around;
  const made_file file(tensors());
  for (const int full : {0, 1}) {
    cuda::wait_for_returned_memory(patience);
    void* taken = nullptr;
    std::thread([&] {
      (void)cudaSetDevice(full);
      (void)cudaMalloc(&taken, fake_cudart::memory_bytes - 300'000);
    }).join();
    REQUIRE(taken != nullptr);
    {
      loader with(both(), small_options());
      const auto failed = failure_of(with.load_async(file.name(), everywhere(), use_future));
      REQUIRE(failed);
      CHECK(failed->code() == errc::memory_exceeded);
      CHECK(holds(failed->what(), cuda_device(full).name() + " has "));
      CHECK(with.memory().tensor_bytes == 0);
      // A tensor that fits only on the other device is still placed there.
      const auto other = static_cast<std::uint32_t>(1 - full);
      const model loaded = get(with.load_async(file.name(), select().on("*", other), use_future));
      CHECK(first_difference_on_device(loaded) == "");
    }
    std::thread([&] {
      (void)cudaSetDevice(full);
      (void)cudaFree(taken);
    }).join();
  }
}

TEST_CASE("cuda: a load that is cancelled while both devices copy ends when both have let go") {
  const made_file file(tensors());
  for (const std::size_t copies : {1U, 2U, 5U}) {
    const fresh_runtime around;
    fake_cudart::hold();
    loader with(both(), small_options(2));
    boost::asio::io_context here;
    boost::asio::cancellation_signal stop;
    bool done = false;
    boost::system::error_code code;
    const auto ended = [&](boost::system::error_code why, const model&) {
      done = true;
      code = code_of(why);
    };
    with.load_async(
        file.name(), everywhere(),
        boost::asio::bind_executor(here, boost::asio::bind_cancellation_slot(stop.slot(), ended)));
    wait_for_copies(copies);
    stop.emit(boost::asio::cancellation_type::terminal);
    here.run_for(std::chrono::milliseconds(1));
    CHECK_FALSE(done);
    fake_cudart::let_go();
    here.restart();
    here.run_for(patience);
    CHECK(done);
    CHECK(code == boost::asio::error::operation_aborted);
    CHECK(with.memory().tensor_bytes == 0);
  }
}

TEST_CASE("cuda: a context that breaks ends loads to either device with its error") {
  const made_file file(tensors());
  for (const unsigned nth : {1U, 3U, 8U}) {
    start_afresh();
    fake_cudart::break_at_copy(nth, cudaErrorECCUncorrectable);
    {
      loader with(both(), small_options());
      const auto failed = failure_of(with.load_async(file.name(), everywhere(), use_future));
      REQUIRE(failed);
      CHECK(failed->code().category() == cuda_category());
      CHECK(failed->code().value() == cudaErrorECCUncorrectable);
    }
    CHECK(misuse() == "");
  }
  start_afresh();
}

// Must be the last test, because the library does not test a connection again if its first test did
// not end.
TEST_CASE(
    "cuda: devices whose connection damages bytes or never ends a copy get all from the host") {
  constexpr std::size_t bytes = 1'000'001;
  const made_file file(only("large", bytes));
  for (const bool is_stuck : {false, true}) {
    CAPTURE(is_stuck);
    start_afresh();
    fake_cudart::badly_connected(is_stuck);
    if (is_stuck) fake_cudart::free_waits(false);
    {
      loader with(both(), small_options());
      for (int i = 0; i < 2; ++i) {
        const model loaded = get(with.load_async(file.name(), select().replicate("*"), use_future));
        const std::string first = bytes_on_device(loaded.at("large", 0));
        CHECK(first == file_bytes(file.path(), loaded.catalog().tensors.front().offset, bytes));
        CHECK((bytes_on_device(loaded.at("large", 1)) == first));
      }
      CHECK(fake_cudart::moved().up == tested_bytes + 4 * bytes);
      CHECK(fake_cudart::moved().across == tested_bytes);
    }
    // Memory that an endless copy may still use is not freed.
    const std::string left = left_over();
    CHECK((left == "") == !is_stuck);
    {
      loader next(both(), small_options());
      const model loaded = get(next.load_async(file.name(), select().replicate("*"), use_future));
      CHECK((bytes_on_device(loaded.at("large", 1)) == bytes_on_device(loaded.at("large", 0))));
    }
    // The next loader does not lose more memory of the device.
    CHECK(left_over() == left);
    CHECK(fake_cudart::moved().across == (is_stuck ? 1 : 2) * tested_bytes);
    CHECK(misuse() == "");
  }
  fake_cudart::reset_abandoned();
}
