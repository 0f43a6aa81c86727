// SPDX-License-Identifier: Apache-2.0

// io_uring is refused, as in containers. A separate process, because a seccomp filter cannot be
// removed.

#include <doctest/doctest.h>

#include <boost/asio/use_future.hpp>
#include <cerrno>
#include <filesystem>
#include <ringload/ringload.hpp>

#include "support/made_checkpoint.hpp"
#include "support/seccomp.hpp"
#include "support/skip.hpp"
#include "support/small_options.hpp"
#include "support/waiting.hpp"

namespace asio = boost::asio;
using namespace ringload;
using namespace ringload::testing;

namespace {

void refuse_once() {
  static const bool refused = [] {
    refuse_io_uring(EPERM);
    return true;
  }();
  CHECK(refused);
}

std::vector<made_tensor> some_tensors() { return {{"a", 999}, f32("b", 50'000), {"c", 250'000}}; }

}  // namespace

TEST_CASE("io_uring refused: the loader reads with threads, and says why") {
  refuse_once();
  const made_file file(some_tensors(), 3);
  loader with(host(), small_options());
  CHECK(with.stats().engine == read_engine::threads);
  CHECK(holds(with.stats().engine_reason, "io_uring_setup: not permitted"));
  // If a setting of the machine also forbids io_uring, the reason names this setting.
  const bool named = holds(with.stats().engine_reason, "seccomp") ||
                     holds(with.stats().engine_reason, "kernel.io_uring_disabled");
  CHECK(named);
  CHECK_FALSE(with.stats().slots_registered);
  CHECK(with.stats().registration_reason != "");
  for (const read_route route : {read_route::automatic, read_route::buffered}) {
    make_cold(file.path());
    const model loaded = get(with.load_async(file.name(), by(route), use_future));
    CHECK(loaded.size() == 3);
    CHECK(first_difference(loaded) == "");
    CHECK(loaded.stats().engine == read_engine::threads);
  }
}

TEST_CASE("io_uring refused: threads read directly too") {
  refuse_once();
  const made_file file(some_tensors(), 3);
  loader with(host(), small_options());
  auto loading_it = with.load_async(file.name(), by(read_route::direct), use_future);
  try {
    const model loaded = get(std::move(loading_it));
    CHECK(first_difference(loaded) == "");
    CHECK(loaded.stats().bytes_direct > 450'000);
    CHECK(loaded.stats().bytes_buffered == 0);
  } catch (const error& e) {
    REQUIRE(e.code() == errc::direct_unavailable);
    skip("no direct reads of files in the temporary folder");
  }
}

TEST_CASE("io_uring refused: next_async and cancel still work") {
  refuse_once();
  const made_file file(equal_tensors(20, small_slot));
  loader with(host(), small_options());
  load_operation load = get(with.start_async(file.name(), use_future));
  CHECK(get(load.tensor_async("t19", use_future)).name() == "t19");
  unsigned seen = 0;
  while (get(load.next_async(use_future))) ++seen;
  CHECK(seen == 20);
  load_operation other = get(with.start_async(file.name(), use_future));
  other.cancel();
  const auto code = code_of(other.finish_async(use_future));
  CHECK((!code || code == asio::error::operation_aborted));
}

TEST_CASE("io_uring refused: saves are written by threads") {
  refuse_once();
  const made_file file(some_tensors(), 3);
  const temporary_folder folder;
  const std::string path = (folder.path() / "saved.safetensors").string();
  loader with(host(), small_options());
  const model loaded = get(with.load_async(file.name(), use_future));
  save_options how;
  how.read_back = true;
  const save_result done = get(with.save_async(path, refs_of(loaded), how, use_future));
  CHECK(done.bytes == std::filesystem::file_size(path));
  const model again = get(with.load_async(path, use_future));
  for (const tensor& one : loaded) {
    const bool same = bytes_of(again.at(one.name())) == bytes_of(one);
    CHECK(same);
  }
}

TEST_CASE("io_uring refused: asking for the ring is engine_unavailable") {
  refuse_once();
  try {
    loader with(host(), small_options(4, read_engine::ring));
    FAIL("the ring was made");
  } catch (const error& e) {
    CHECK(e.code() == errc::engine_unavailable);
    CHECK(holds(e.what(), "io_uring_setup"));
  }
}
