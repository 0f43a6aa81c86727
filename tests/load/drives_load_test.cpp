// SPDX-License-Identifier: Apache-2.0

// Loads from two drives by one loader. Blocked reads of one drive do not delay the other drive.

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <algorithm>
#include <boost/asio/use_future.hpp>
#include <filesystem>
#include <ringload/ringload.hpp>
#include <string>

#include "support/made_checkpoint.hpp"
#include "support/scripted_loader.hpp"
#include "support/skip.hpp"
#include "support/small_options.hpp"
#include "support/waiting.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

::dev_t device_of(const std::filesystem::path& path) {
  struct ::stat status = {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  return status.st_dev;
}

::dev_t device_of(const io_request& what) {
  struct ::stat status = {};
  return ::fstat(what.fd, &status) == 0 ? status.st_dev : 0;
}

// A copy of the file in memory, which counts as another drive.
class copy_elsewhere {
 public:
  explicit copy_elsewhere(const std::filesystem::path& of)
      : path_("/dev/shm/ringload-test-" + std::to_string(::getpid()) + ".safetensors") {
    std::error_code failed;
    std::filesystem::copy_file(of, path_, std::filesystem::copy_options::overwrite_existing,
                               failed);
    there_ = !failed && device_of(path_) != device_of(of);
  }
  copy_elsewhere(const copy_elsewhere&) = delete;
  copy_elsewhere& operator=(const copy_elsewhere&) = delete;
  ~copy_elsewhere() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }

  bool there() const noexcept { return there_; }
  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  const std::filesystem::path path_;
  bool there_ = false;
};

std::size_t reads_from(const read_script& script, ::dev_t device) {
  const auto log = script.log();
  return static_cast<std::size_t>(std::ranges::count_if(
      log, [device](const io_request& one) { return device_of(one) == device; }));
}

}  // namespace

TEST_CASE("drives: one that does not answer keeps its share of the workers, and no more") {
  const made_file slow(equal_tensors(20, small_slot));
  const copy_elsewhere fast(slow.path());
  if (!fast.there()) {
    skip("there is no second file system at /dev/shm");
    return;
  }
  const ::dev_t slow_device = device_of(slow.path());
  for (const read_engine engine : {read_engine::automatic, read_engine::threads}) {
    read_script script([&](const io_request& what, std::uint64_t) {
      const bool holds_up = device_of(what) == slow_device;
      return read_fate{.until_released = holds_up ? read_fate::hold::start : read_fate::hold::none};
    });
    loader_options within = small_options(4, engine);
    within.reader_threads = 4;
    scripted_loader with(script, within);
    // While no other drive is known, the drive may use all workers.
    auto first = with.load_async(slow.name(), by(read_route::buffered), use_future);
    REQUIRE(script.wait_until_held(4));
    // When the workers are free again, half of them belong to the other drive.
    load_operation other =
        get(with.start_async(fast.path().string(), by(read_route::buffered), use_future));
    for (int n = 0; n < 2; ++n) {
      REQUIRE(script.held() >= 1);
      script.release(0);
    }
    const model loaded = get(other.finish_async(use_future));
    CHECK(first_difference(loaded) == "");
    CHECK_FALSE(ready(first));
    CHECK(reads_from(script, slow_device) == 4);

    // A later load finds its half free.
    CHECK(first_difference(get(
              with.load_async(fast.path().string(), by(read_route::buffered), use_future))) == "");
    CHECK_FALSE(ready(first));
    script.release_all();
    CHECK(first_difference(get(std::move(first))) == "");
  }
}

TEST_CASE(
    "drives: a checkpoint of two drives is read from both, and awaited reads wait for theirs") {
  const made_file slow(equal_tensors(20, small_slot));
  std::vector<made_tensor> others = equal_tensors(20, small_slot);
  for (made_tensor& each : others) each.name += ".fast";
  const made_file second(others);
  const copy_elsewhere fast(second.path());
  if (!fast.there()) {
    skip("there is no second file system at /dev/shm");
    return;
  }
  const ::dev_t slow_device = device_of(slow.path());
  read_script script([&](const io_request& what, std::uint64_t) {
    const bool holds_up = device_of(what) == slow_device;
    return read_fate{.until_released = holds_up ? read_fate::hold::start : read_fate::hold::none};
  });
  scripted_loader with(script, small_options(4));
  checkpoint both;
  {
    loader opener(host(), small_options());
    both = get(opener.open_async(std::vector{slow.name(), fast.path().string()}, use_future));
  }
  load_operation load = get(with.start_async(both, by(read_route::buffered), use_future));
  auto awaited = load.tensor_async("t19", use_future);
  // All reads of the fast drive complete, even if tensors of the other drive are awaited.
  for (int t = 0; t < 20; ++t) {
    CHECK(get(load.tensor_async("t" + std::to_string(t) + ".fast", use_future)).size_bytes() ==
          small_slot);
  }
  CHECK_FALSE(ready(awaited));
  CHECK(reads_from(script, slow_device) <= 2);
  script.release_all();
  CHECK(get(std::move(awaited)).name() == "t19");
  CHECK(first_difference(get(load.finish_async(use_future))) == "");
}
